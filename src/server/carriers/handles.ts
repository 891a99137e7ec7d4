import { randomBytes } from 'node:crypto';
import { ValiseError } from '../../core/errors.ts';
import { isObject, type JsonObject } from '../../core/json.ts';
import type { Taken } from '../../core/options.ts';
import { sha256 } from '../../core/sha256.ts';
import { type Collection, collection, type Members, recordsOf } from '../../store/kit/collection.ts';
import { HANDLE, takeHandle, withHandle, withHandleParameter } from '../../wire/handle.ts';
import { NAMES, type Response } from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import type { Exchange, ServerMiddleware } from '../exchange.ts';
import { isFlow } from '../flows/flow.ts';
import { isHttp } from '../peer.ts';
import { Quota } from '../quota.ts';
import type { ServerLike } from '../sdk-server.ts';
import { toolNames, toolOf } from '../sdk-server.ts';
import type { Carrier } from './types.ts';

const KEY = NAMES.modern.state.key;

/**
 * Marks a tool as keeping state between calls, in the `_meta` of its config.
 *
 * Such a tool then works for anonymous clients over HTTP that carry nothing: it gets the parameter `state_handle`, which the
 * model copies from one result into the next call. This needs a store.
 *
 * @example
 * ```ts
 * server.registerTool('add_to_cart', { description, inputSchema, _meta: { ...keepsState } }, addToCart);
 * ```
 */
export const keepsState: { readonly [KEY]: { readonly keeps: true } } = Object.freeze({
  [KEY]: Object.freeze({ keeps: true as const }),
});

/** Returns the tools of a server that say in their config that they keep state or need a session. */
export function declaredTools(server: ServerLike): readonly string[] {
  return toolNames(server).filter((name) => {
    const meta = toolOf(server, name)?.meta;
    return [meta?.[KEY], meta?.[NAMES.modern.session]].some(
      (declared) => isObject(declared) && (declared['keeps'] === true || declared['required'] === true),
    );
  });
}

/** Returns the warning for tools that no anonymous client without state can use, since there is no store. */
export function storeless(tools: readonly string[]): { readonly what: string; readonly next: string } {
  const named = tools
    .slice(0, 5)
    .map((name) => JSON.stringify(name))
    .join(', ');
  return {
    what: `There is no store, so ${named === '' ? 'no tool takes' : `${named} take${tools.length === 1 ? 's' : ''} no`} state_handle: anonymous clients over HTTP that carry no state get an error.`,
    next: 'Give createValise a store that all instances share.',
  };
}

/** Creates the function that says whether a tool keeps state between calls. */
export function stateKeeping(
  handles: Exclude<Handles, false>,
  options: {
    /** Whether a call of the tool needs a session. */
    needsSession(exchange: Exchange, tool: string): boolean;
    /** Whether flows of clients that cannot be asked continue in a later call. */
    readonly flowsContinue: boolean;
  },
): (exchange: Exchange, tool: string) => boolean {
  return (exchange, name) => {
    const tool = exchange.toolOf(name);
    // A parameter of the author's own has another meaning.
    if (tool?.takes(HANDLE)) return false;
    if (handles === 'all' || options.needsSession(exchange, name)) return true;
    const declared = tool?.meta?.[KEY];
    if (isObject(declared) && declared['keeps'] === true) return true;
    return options.flowsContinue && isFlow(tool?.handler);
  };
}

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
const UNKNOWN = `${HANDLE} is unknown or expired. Call again without ${HANDLE} to start over.`;

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

  /** The carrier under a handle. Nothing is stored, and no handle issued, before there is something to store. */
  const carrierFor = (
    exchange: Exchange,
    handle: string,
    isKnown: boolean,
  ): Carrier & { isIssued: boolean } => {
    let adding: Promise<void> | undefined;
    const carrier = {
      kind: 'handle' as const,
      principal: null,
      thread: `handle:${sha256(handle)}`,
      store,
      isNew: !isKnown,
      isIssued: isKnown,
      async begin() {
        if (isKnown) return;
        adding ??= records.add(handle, exchange);
        await adding;
        carrier.isIssued = true;
      },
    };
    return carrier;
  };

  const called = async (exchange: Exchange, next: () => Promise<Response>): Promise<Response> => {
    const { params } = exchange.request;
    const { own, handle: passed } = takeHandle(params?.['arguments']);
    if (own !== params?.['arguments'])
      exchange.request = {
        ...exchange.request,
        params: { ...params, arguments: own as JsonObject },
      };
    const { kind } = exchange.carrier;
    const isWanted = kind === 'none' || (kind === 'session' && passed !== undefined);
    if (!isWanted) return next();
    if (passed !== undefined && !(await records.find(passed))) {
      events.emit('rejected', { family: 'jar', what: 'a state handle', reason: 'unknown or expired' });
      return exchange.respond({ result: { content: [{ type: 'text', text: UNKNOWN }], isError: true } });
    }
    const handle = passed ?? HandleRecords.make();
    const carrier = carrierFor(exchange, handle, passed !== undefined);
    exchange.carrier = carrier;
    const response = await next();
    return 'result' in response && carrier.isIssued
      ? { ...response, result: withHandle(response.result, handle, passed !== undefined) }
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

/** How long a handle lives: after its last use, and at most, in seconds. */
const IDLE = 86_400;
/** How much longer a record is kept, so that not every use has to be recorded, in seconds. */
const SLACK = 7200;
const LONGEST = 30 * 86_400;

/** The time in which the number of new handles is limited, in seconds. */
const HOUR = 3600;

/** How many handles this process creates within an hour, for one caller and in total. */
export interface HandleLimits {
  readonly perCaller: number;
  readonly total: number;
}

/** The handles that this server has issued. Only their hashes are stored. */
class HandleRecords {
  readonly #records: Collection<Members>;
  readonly #created: Quota;
  readonly #events: ServerContext['events'];

  constructor(
    { store, name, events }: ServerContext & { readonly store: NonNullable<ServerContext['store']> },
    { perCaller, total }: HandleLimits,
  ) {
    this.#records = collection(store, `handles/${sha256(name).slice(0, 16)}/`, recordsOf('state handle'));
    this.#created = new Quota({ perCaller: { count: perCaller }, total: { count: total } });
    this.#events = events;
  }

  /** Returns a new handle, which has not been issued yet. */
  static make(): string {
    return `vh1_${randomBytes(16).toString('base64url')}`;
  }

  /** Whether this server has issued the handle and it has not expired. Its use is recorded. */
  async find(handle: string): Promise<boolean> {
    if (!/^vh1_[\w-]{22}$/.test(handle)) return false;
    const key = sha256(handle);
    const found = await this.#records.get(key);
    const until = found?.value?.['until'];
    const now = Date.now();
    if (!found || typeof until !== 'number' || until <= now) return false;
    const isDue = found.expiresAt !== undefined && found.expiresAt - now < IDLE * 1000;
    if (isDue) await this.#put(key, until, { ifVersion: found.version });
    return true;
  }

  /** Records that a handle is issued. Throws if the caller has been issued too many. */
  async add(handle: string, { caller }: Exchange): Promise<void> {
    const taken = this.#created.take(caller, { ttl: HOUR });
    if (typeof taken === 'string') {
      this.#events.emit('rejected', { family: 'jar', what: 'a new state handle', reason: taken });
      throw tooMany();
    }
    await this.#put(sha256(handle), Date.now() + LONGEST * 1000, {});
  }

  async #put(key: string, until: number, condition: { readonly ifVersion?: string }): Promise<void> {
    const ttl = Math.max(1, Math.min(IDLE + SLACK, Math.ceil((until - Date.now()) / 1000)));
    await this.#records.put(key, { until }, { ttl, ...condition });
  }
}

function tooMany(): ValiseError {
  return new ValiseError('limit-reached', 'The server has given out too many state handles.', {
    next: 'Try again later, sign in, or use a client that carries its state.',
  });
}
