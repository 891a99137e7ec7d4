import { isObject, type JsonObject } from '../../json.ts';
import type { Taken } from '../../options.ts';
import { sha256 } from '../../sha256.ts';
import { HANDLE, takeHandle, withHandle, withHandleParameter } from '../../wire/handle.ts';
import type { Response } from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import type { Exchange, ServerMiddleware } from '../exchange.ts';
import { isHttp } from '../peer.ts';
import { type HandleLimits, HandleRecords } from './handle-records.ts';
import type { Carrier } from './types.ts';

/** Which tools take a state handle: those that declare that they keep state, all of them, or none. */
export type Handles = 'declared' | 'all' | false;

/** The values that the option accepts. */
export const HANDLES: Taken = [
  "'declared', 'all' or false",
  (value) => value === 'declared' || value === 'all' || value === false,
];

export interface HandlesOptions {
  readonly limits: HandleLimits;
  /** Whether a tool keeps state. */
  keepsState(exchange: Exchange, tool: string): boolean;
}

/** The text for a model that passes a handle that is not known. It is a result, since some hosts hide errors from the model. */
const UNKNOWN = `${HANDLE} is unknown or expired. Call again without ${HANDLE} to start anew.`;

/**
 * Creates the middleware for clients that carry nothing and that nothing tells apart: the model passes a handle back.
 *
 * The list of tools is the same for every client. The state of a client that anything else carries never depends on a handle.
 */
export function handlesMiddleware(
  context: ServerContext & { readonly store: NonNullable<ServerContext['store']> },
  { limits, keepsState }: HandlesOptions,
): ServerMiddleware {
  const { store, events } = context;
  const records = new HandleRecords(context, limits);

  const listed = (exchange: Exchange, response: Response): Response => {
    if (!('result' in response) || !Array.isArray(response.result['tools'])) return response;
    const tools = (response.result['tools'] as JsonObject[]).map((tool) =>
      typeof tool['name'] === 'string' && keepsState(exchange, tool['name'])
        ? withHandleParameter(tool)
        : tool,
    );
    return { ...response, result: { ...response.result, tools } };
  };

  /** The carrier under a handle. Nothing is stored, and no handle given out, before there is something to store. */
  const carrierFor = (
    exchange: Exchange,
    handle: string,
    isKnown: boolean,
  ): Carrier & { isGiven: boolean } => {
    let adding: Promise<void> | undefined;
    const carrier = {
      kind: 'handle' as const,
      principal: null,
      thread: `handle:${sha256(handle)}`,
      store,
      isNew: !isKnown,
      isGiven: isKnown,
      async begin() {
        if (isKnown) return;
        adding ??= records.add(handle, exchange);
        await adding;
        carrier.isGiven = true;
      },
    };
    return carrier;
  };

  const called = async (exchange: Exchange, next: () => Promise<Response>): Promise<Response> => {
    const { params } = exchange.request;
    const { own, handle: given } = takeHandle(params?.['arguments']);
    if (own !== params?.['arguments'])
      exchange.request = {
        ...exchange.request,
        params: { ...params, arguments: own as JsonObject },
      };
    const { kind } = exchange.carrier;
    const isWanted = kind === 'none' || (kind === 'session' && given !== undefined);
    if (!isWanted) return next();
    if (given !== undefined && !(await records.find(given))) {
      events.emit('rejected', { family: 'state', what: 'a state handle', reason: 'unknown or expired' });
      return exchange.respond({ result: { content: [{ type: 'text', text: UNKNOWN }], isError: true } });
    }
    const handle = given ?? HandleRecords.make();
    const carrier = carrierFor(exchange, handle, given !== undefined);
    exchange.carrier = carrier;
    const response = await next();
    return 'result' in response && carrier.isGiven
      ? { ...response, result: withHandle(response.result, handle, given !== undefined) }
      : response;
  };

  return async (exchange, next) => {
    const { method, request, extra } = exchange;
    if (method === 'tools/list') return isHttp(extra) ? listed(exchange, await next()) : next();
    if (method !== 'tools/call') return next();
    const { name: tool, arguments: args } = request.params ?? {};
    // Most clients need no handle, and pass none.
    if (exchange.carrier.kind !== 'none' && !(isObject(args) && HANDLE in args)) return next();
    return typeof tool === 'string' && isHttp(extra) && keepsState(exchange, tool)
      ? called(exchange, next)
      : next();
  };
}
