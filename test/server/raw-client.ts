import type { TransportLike } from '../../src/core/instrument.ts';
import type { Era, Meta, Response, Result } from '../../src/wire/index.ts';

/** A client that is nothing but JSON-RPC: it shows what is on the wire, and adds nothing of its own. */
export interface RawClient {
  /** What the server said of itself, in the words of the era. */
  readonly initialized: Result;
  /** Sends a request and waits for its response, whatever it is. */
  request(method: string, params?: object): Promise<Response>;
  /** Calls a tool; throws where the response is an error. */
  call(name: string, args?: object, meta?: Meta): Promise<Result>;
  close(): Promise<void>;
}

/** Connects over a transport, with these capabilities; in the newer era they go with each request. */
export async function rawClient(
  transport: TransportLike,
  capabilities: object = { state: {} },
  meta?: Meta,
  era: Era = 'legacy',
): Promise<RawClient> {
  const clientInfo = { name: 'raw', version: '1.0.0' };
  const envelope = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': capabilities,
    'io.modelcontextprotocol/clientInfo': clientInfo,
  };
  const dressed = (params?: { readonly _meta?: object }) =>
    era === 'modern' ? { ...params, _meta: { ...envelope, ...params?._meta } } : params;
  const waiting = new Map<number, (response: Response) => void>();
  let count = 0;
  transport.onmessage = (message: Response) => waiting.get(Number(message.id))?.(message);
  await transport.start();
  const request: RawClient['request'] = (method, given) => {
    const params = dressed(given);
    const id = ++count;
    return new Promise((resolve, reject) => {
      waiting.set(id, resolve);
      transport.send({ jsonrpc: '2.0', id, method, ...(params && { params }) }).catch(reject);
    });
  };
  const introduce = async (): Promise<Result> => {
    const result = resultOf(
      await request('initialize', {
        protocolVersion: '2025-11-25',
        capabilities,
        clientInfo,
        ...(meta && { _meta: meta }),
      }),
    );
    await transport.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
    return result;
  };
  const initialized = era === 'modern' ? resultOf(await request('server/discover')) : await introduce();
  return {
    initialized,
    request,
    call: async (name, args = {}, _meta) =>
      resultOf(await request('tools/call', { name, arguments: args, ...(_meta && { _meta }) })),
    close: () => transport.close(),
  };
}

/** The result of a response; throws where it is an error. */
export function resultOf(response: Response): Result {
  if ('result' in response) return response.result;
  throw new Error(`error ${response.error.code}: ${response.error.message}`);
}

/** The text of a tool's result. */
export function textOf(result: Result): string {
  return (result['content'] as { text: string }[]).map(({ text }) => text).join('\n');
}
