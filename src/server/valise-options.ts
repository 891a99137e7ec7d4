import { isObject } from '../core/json.ts';
import { ANYTHING, BYTES, FLAG, FUNCTION, SETTINGS, type TakenBy } from '../core/options.ts';
import type { Keyring } from '../seal/index.ts';
import type { SpillStore } from '../seal/options.ts';
import { isStore, type Store } from '../store/types.ts';
import type { TellCaller } from './caller.ts';
import { HANDLES, type Handles } from './carriers/handles.ts';
import { CONVERSATION, type Conversation } from './carriers/state-carrier.ts';
import type { ServerListeners } from './events.ts';
import type { FlowsOptions } from './flows/options.ts';
import type { IdempotencyOptions } from './idempotency/options.ts';
import type { JarOptions } from './jar/jar.ts';
import type { JarDeclarations } from './jar/keys.ts';
import type { ObjectSchema } from './jar/schema.ts';
import type { AuthInfo, Principal } from './principal.ts';
import type { SessionsOptions } from './sessions/options.ts';
import type { ServerTelemetry } from './telemetry.ts';

/** Options of `createValise`. */
export interface ServerValiseOptions<
  Declared extends JarDeclarations = JarDeclarations,
  SessionSchema extends ObjectSchema = ObjectSchema,
> {
  /** The name of this server. Seals made for one name open under no other. All instances of one server share it. */
  readonly name: string;
  /**
   * The keys that seal state: a keyring, or its text.
   *
   * If omitted, Valise reads `VALISE_KEYS`. If that is not set either, it generates a key that no other instance and no later
   * process has, and emits a `warning`. In production (`NODE_ENV=production`) a missing key is an error. Pass `ephemeral` to
   * ask for a generated key, for a server that runs as a single process, for example over stdio.
   */
  readonly keys?: Keyring | string | undefined;
  /**
   * The ids of keys that have been removed for good, for example after a leak (`valise keys list` shows ids).
   *
   * State that a retired key sealed is no longer valid. State sealed by any other key that is not among `keys` counts as a
   * mistake in this server's settings: the request fails with a retryable error, and the client keeps what it has.
   *
   * @defaultValue none
   */
  readonly retiredKeys?: readonly string[] | undefined;
  /** The store for clients that do not carry state: a store, or its URL. A store given by URL is opened on first use. */
  readonly store?: Store | string | undefined;
  /**
   * Where session states that are too large to travel are kept, in addition to `store`.
   *
   * Such a state is written once under a new key, and then only read. So a place without compare-and-set is enough, such as
   * `workersKvStore`.
   *
   * @defaultValue `store`
   */
  readonly spillStore?: SpillStore | undefined;
  /**
   * Whether a write must reach a replica before it counts as saved.
   *
   * With `'replicated'`, on Redis and PostgreSQL, changes to sessions and marks of effects (`flow.once`) count as saved only
   * when a replica has them too, so a failover does not lose them. This applies to a `store` given by its URL; a store that you
   * open yourself takes the same option.
   *
   * @defaultValue `'local'`
   */
  readonly durability?: 'local' | 'replicated' | undefined;
  /**
   * Returns the principal of a request, for servers whose `authInfo` does not name it as `extra.sub` (with `extra.iss` and
   * `clientId`).
   *
   * A principal needs a `subject`. Without one the caller counts as anonymous, and Valise emits a `warning`. Over stdio,
   * `undefined` means the user whom the process belongs to, and `null` means that the caller is anonymous. The second
   * argument is what the transport passes along with the message. Over HTTP it has the headers, as `request.headers` (a
   * `Headers`; SDK v2, web standard) or `requestInfo.headers` (an object; SDK v1, Node). `valise.http` calls this function too,
   * before the SDK does and possibly with the other form, so check both. On stdio the argument is undefined.
   *
   * @example
   * ```ts
   * // Only where a proxy has verified who asks, and lets nobody else set this header.
   * principal: (_authInfo, extra) => {
   *   const { request, requestInfo } = (extra ?? {}) as {
   *     request?: Request;
   *     requestInfo?: { headers: Record<string, string | string[] | undefined> };
   *   };
   *   const subject = request?.headers.get('x-user') ?? requestInfo?.headers['x-user'];
   *   return typeof subject === 'string' ? { subject } : undefined;
   * },
   * ```
   */
  readonly principal?:
    | ((authInfo: AuthInfo | undefined, extra: unknown) => Principal | null | undefined)
    | undefined;
  /**
   * Tells anonymous callers apart, so that each has its own share of the limits.
   *
   * The default is the remote address if `valise.http` receives Node's requests, otherwise the connection or the transport's
   * session. Behind a proxy all clients have the proxy's address, so read the header in which the proxy names the client's. The
   * result never grants access to anything.
   *
   * @example
   * ```ts
   * // The proxy appends the address that it sees; what stands before it is the client's to invent.
   * caller: ({ header, address }) => header('x-forwarded-for')?.split(',').at(-1)?.trim() ?? address,
   * ```
   */
  readonly caller?: TellCaller | undefined;
  /**
   * Whether clients that carry no state are told apart by the key that their host sends for each conversation.
   *
   * `true` reads the keys that hosts are known to send in `_meta`, such as `openai/session`. A function returns the key from
   * `_meta` and from what the transport passes along. Under a verified principal, each conversation then has its own session
   * state. Without one, whoever sends a key gets what is stored under it, and the caller chooses the key.
   *
   * @defaultValue false
   */
  readonly conversation?: Conversation | undefined;
  /**
   * Which tools take a `state_handle` over HTTP, for anonymous clients that carry nothing (needs a store).
   *
   * `'declared'`: those with `keepsState` or `sessionRequired` in the `_meta` of their config, those that need a session, and
   * flows. `'all'`: every tool. `false`: none.
   *
   * @defaultValue 'declared'
   */
  readonly handles?: Handles | undefined;
  /** Listeners that are registered from the start. Use `valise.on` to add others later. */
  readonly events?: ServerListeners | undefined;
  /**
   * Whether this process records what it sees in the store, for an hour: rejections, keys of seals that clients send back,
   * errors of the store, listeners and limits. `valise console --server` and `valise.console()` show what all instances
   * have recorded. No values and no ids are recorded. Without a store it has no effect.
   *
   * @defaultValue false
   */
  readonly recordEvents?: boolean | undefined;
  /** Declares the keys of this server's jar. Keys that are not declared are sealed and hold any JSON. */
  readonly jar?: (JarOptions & Declared) | undefined;
  /** Enables data-layer sessions. If omitted, the server has none. */
  readonly sessions?: SessionsOptions<SessionSchema> | undefined;
  /**
   * The largest message that the server accepts from a client, in bytes.
   *
   * It limits the body of an HTTP request that `valise.http` reads and each line that `valise.stdin` reads. The server does not
   * handle a larger message: it responds with an error (status 413 over HTTP) and emits `message-too-large`.
   *
   * @defaultValue 4194304 (4 MiB, as in both SDKs) over HTTP, 67108864 (64 MiB) on stdio
   */
  readonly maxMessageBytes?: number | undefined;
  /**
   * How many requests this process handles at a time.
   *
   * The server refuses any further request immediately with a retryable error and emits `overloaded`. Calls that wait for their
   * user on an open connection count. Listeners, which have limits of their own, do not count, nor do `initialize` and `ping`.
   *
   * @defaultValue no limit
   */
  readonly maxInFlight?: number | undefined;
  /**
   * Reports spans and metrics to OpenTelemetry: the result of `telemetry()` from `mcp-valise/otel`.
   *
   * @defaultValue none, and nothing is loaded or measured
   */
  readonly telemetry?: ServerTelemetry | undefined;
  /** Options of calls that may be repeated: how long their results are kept, and how many. */
  readonly idempotency?: IdempotencyOptions | undefined;
  /** Options of flows: where their context is stored, and how it is encoded and limited. */
  readonly flows?: FlowsOptions | undefined;
}

/** The values that each option accepts. */
export const SERVER_OPTIONS: TakenBy<ServerValiseOptions> = {
  name: ANYTHING,
  keys: ANYTHING,
  store: [
    'the URL of a store, such as sqlite:./state.db, or a store that can compare and set',
    (value) => typeof value === 'string' || isStore(value),
  ],
  spillStore: [
    'a store',
    (value) => isObject(value) && typeof value['get'] === 'function' && typeof value['put'] === 'function',
  ],
  durability: ["'local' or 'replicated'", (value) => value === 'local' || value === 'replicated'],
  principal: FUNCTION,
  caller: FUNCTION,
  conversation: CONVERSATION,
  handles: HANDLES,
  events: ['an object with listeners', isObject],
  recordEvents: FLAG,
  jar: SETTINGS,
  sessions: SETTINGS,
  maxMessageBytes: BYTES,
  maxInFlight: ['a whole number from 1', (value) => Number.isSafeInteger(value) && Number(value) > 0],
  retiredKeys: ['a list of ids of keys', (value) => Array.isArray(value)],
  flows: SETTINGS,
  idempotency: SETTINGS,
  telemetry: [
    'the result of telemetry()',
    (value) => isObject(value) && typeof value['server'] === 'function',
  ],
};
