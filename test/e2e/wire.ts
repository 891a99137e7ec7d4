import type { Meta, Response } from '../../src/wire/index.ts';
import type { Running } from './example.ts';

const VERSION = { legacy: '2025-11-25', modern: '2026-07-28' } as const;

/** The eras of the protocol. */
export type Era = keyof typeof VERSION;

/** JSON-RPC by hand, over any transport: what is on the wire, and nothing else. */
export interface Wire {
  request(method: string, params?: object): Promise<Response>;
}

/** One call of a tool with this `_meta`. */
export function callParams(name: string, args: object, meta?: Meta): object {
  return { name, arguments: args, ...(meta && { _meta: meta }) };
}

/** Over stdio, in an era: `initialize` in the older one, metadata with each request in the newer one. */
export async function stdioWire({ child }: Running, era: Era, capabilities: object): Promise<Wire> {
  const waiting = new Map<number, (response: Response) => void>();
  let rest = '';
  child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const message = JSON.parse(line) as Response;
      waiting.get(Number(message.id))?.(message);
    }
  });
  let count = 0;
  const send = (message: object) =>
    void child.stdin?.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const post = (method: string, params: object) =>
    new Promise<Response>((resolve) => {
      const id = ++count;
      waiting.set(id, resolve);
      send({ id, method, params });
    });
  if (era === 'modern') return { request: (method, params) => post(method, modern(params, capabilities)) };
  await post('initialize', hello(capabilities));
  send({ method: 'notifications/initialized' });
  return { request: (method, params = {}) => post(method, params) };
}

/** Over HTTP; in the older era with the session that the server gives, if it gives one, or with one that is given. */
export async function httpWire(url: URL, era: Era, capabilities: object, given?: string): Promise<Wire> {
  let count = 0;
  let session = given;
  const post = async (method: string, params: object): Promise<Response> => {
    const name = (params as { name?: string }).name;
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...(method !== 'initialize' && { 'mcp-protocol-version': VERSION[era] }),
        ...(session && { 'mcp-session-id': session }),
        ...(era === 'modern' && { 'mcp-method': method, ...(name && { 'mcp-name': name }) }),
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: ++count, method, params }),
    });
    session ??= response.headers.get('mcp-session-id') ?? undefined;
    const text = await response.text();
    return JSON.parse(/^data: (\{.*)$/m.exec(text)?.[1] ?? text) as Response;
  };
  if (era === 'modern') return { request: (method, params) => post(method, modern(params, capabilities)) };
  if (given === undefined) await post('initialize', hello(capabilities));
  return { request: (method, params = {}) => post(method, params) };
}

function hello(capabilities: object): object {
  return {
    protocolVersion: VERSION.legacy,
    capabilities,
    clientInfo: { name: 'wire', version: '1.0.0' },
  };
}

function modern(params: { readonly _meta?: object } = {}, capabilities: object): object {
  return {
    ...params,
    _meta: {
      'io.modelcontextprotocol/protocolVersion': VERSION.modern,
      'io.modelcontextprotocol/clientCapabilities': capabilities,
      'io.modelcontextprotocol/clientInfo': { name: 'wire', version: '1.0.0' },
      ...params._meta,
    },
  };
}
