import { ValiseError } from '../core/errors.ts';
import type { TransportLike } from '../core/instrument.ts';
import { isObject } from '../core/json.ts';
import { ANYTHING, BYTES, checkOptions, FLAG, SETTINGS, type TakenBy, TEXT } from '../core/options.ts';
import type { FetchLike } from '../edge/fetch.ts';
import type { StdioCommand } from '../edge/stdio-client.ts';
import type { Keyring } from '../seal/index.ts';
import { isStore, type Store } from '../store/types.ts';
import type { Carrier } from '../wire/index.ts';
import { CARRIERS } from '../wire/index.ts';
import { HTTP_OPTIONS, type HttpOptions } from './connection/http.ts';
import type { ClientStateStore } from './connection/state-store.ts';
import { isClientStateStore } from './connection/state-store.ts';
import type { HostProvider } from './host/host-provider.ts';
import type { NamedServer } from './identity/target.ts';
import { readQuotas } from './jar/quotas.ts';
import type { JarQuotas } from './jar/types.ts';
import type { AuthOptions } from './oauth/options.ts';
import type { SecretsOptions } from './oauth/secrets.ts';
import type { RecordOptions } from './recorded-events.ts';
import type { ClientTelemetry } from './telemetry.ts';

/** An SDK client of either major version. */
export interface ClientLike {
  connect(transport: unknown, options?: unknown): Promise<void>;
  getServerCapabilities(): object | undefined;
}

/** Options for {@link openValise}. */
export interface ClientValiseOptions extends SecretsOptions, RecordOptions {
  /**
   * The store for all client state: a URL that `openStore` accepts, or an open store, which its owner closes.
   * Defaults to `sqlite:~/.valise/state.db`, in a folder that only its owner can enter.
   */
  readonly store?: string | Store | ClientStateStore | undefined;
  /** Seals the store with this keyring, or its text. @defaultValue `VALISE_CLIENT_KEYS`, if the store is given by its URL */
  readonly keys?: Keyring | string | undefined;
  /**
   * The user this state belongs to, if one process serves several users. Never an empty string. Defaults to no particular user.
   */
  readonly principal?: string | undefined;
  /** Limits on the amount of state that is kept. */
  readonly quotas?: JarQuotas | undefined;
  /**
   * Development only: also keeps state for localhost, IP addresses, names outside the public registries, and servers in
   * this process. Emits one `warning` event to say that it is on.
   */
  readonly allowLocal?: boolean | undefined;
  /** Identifies stdio servers by the digest of their file too, so that a changed program starts without state. */
  readonly digest?: boolean | undefined;
  /**
   * How servers may carry the context of their questions, in order of preference. If it is set, servers add nothing to the
   * draft messages, so they do not say when a question expires.
   *
   * @defaultValue all carriers
   */
  readonly carriers?: readonly Carrier[] | undefined;
  /**
   * The largest message to accept from a server: a response body, a server-sent event, or a line on stdio. Valise stops
   * reading a larger one, fails the affected calls immediately, and emits a `message-too-large` event. Responses to sign-in
   * requests and HTTP errors are limited to 1 MiB, or to this value if it is smaller.
   *
   * @defaultValue 67108864 (64 MiB)
   */
  readonly maxMessageBytes?: number | undefined;
  /** Reports to OpenTelemetry: the result of `telemetry()` from `mcp-valise/otel`. By default nothing is measured. */
  readonly telemetry?: ClientTelemetry | undefined;
}

/**
 * Options for {@link ClientValise.connect}. Those of {@link HttpOptions} apply to a URL, `server` to a transport, and the
 * others to any server.
 */
export interface ConnectOptions extends HttpOptions {
  /**
   * How long session-scope state lives if the transport has no session of its own. `'kept'` keeps it until it is cleared,
   * so that programs that run for one call at a time share one session.
   *
   * @defaultValue `'connection'`: until the connection ends
   */
  readonly jarLifetime?: 'connection' | 'kept' | undefined;
  /**
   * Set to false if the client does not use data-layer sessions. The client then does not announce them. If a server needs
   * one, it uses the transport's session instead, as for clients without Valise.
   */
  readonly sessions?: boolean | undefined;
  /**
   * The server at the other end: its URL, or the command that started it. Set it for custom transports, such as a wrapper,
   * that do not reveal their server; without it they get no state.
   *
   * @example
   * ```ts
   * await valise.connect(client, logging(new StreamableHTTPClientTransport(url)), { server: url });
   * ```
   */
  readonly server?: NamedServer | undefined;
}

/**
 * Options for {@link ClientValise.transport} and {@link ClientValise.options}. The options of {@link HttpOptions} apply only to
 * a URL.
 */
export interface TransportOptions extends HttpOptions, Pick<ConnectOptions, 'jarLifetime'> {
  /**
   * The name of the data-layer session for the host's requests, if the server has sessions. The first request creates it,
   * and a later process finds it again by this name. Give each conversation its own name. Set to false for none: if a tool
   * needs a session, it uses the transport's session, as for clients without Valise.
   *
   * @defaultValue `'default'`
   */
  readonly sessionName?: string | false | undefined;
  /**
   * Creates a data-layer session for this transport alone, with `sessionName` as its label, and deletes it when the
   * transport closes, unless one of its calls waits for an answer.
   *
   * @defaultValue `false`
   */
  readonly ownSession?: boolean | undefined;
}

/** Options for {@link ClientValise.authProvider}. */
export interface AuthProviderOptions extends AuthOptions {
  /** Replaces the global `fetch` for requests that Valise sends itself. */
  readonly fetch?: FetchLike | undefined;
}

/** Options to pass to a host that creates its own Streamable HTTP transport. */
export interface HostOptions {
  readonly fetch: FetchLike;
  /** Present if the `auth` option was given. The `fetch` signs in by itself, but some hosts require a provider anyway. */
  readonly authProvider: HostProvider | undefined;
  /** Always undefined: `fetch` resumes the session, and an SDK client that receives an id skips `initialize`. */
  readonly sessionId: undefined;
}

const WAYS: readonly unknown[] = CARRIERS;

/** Throws if an option of `openValise` is invalid. `keys` are checked when they are read. */
export function checkClientOptions(options: ClientValiseOptions): void {
  checkOptions('openValise', options, {
    store: [
      'the URL of a store, such as sqlite:./state.db, or a store',
      (value) => typeof value === 'string' || isStore(value) || isClientStateStore(value),
    ],
    keys: ANYTHING,
    // An empty string would mean no particular user, which a caller with a missing name does not intend.
    principal: ['text of at least one character', (value) => typeof value === 'string' && value !== ''],
    quotas: SETTINGS,
    maxMessageBytes: BYTES,
    allowLocal: FLAG,
    digest: FLAG,
    recordEvents: FLAG,
    telemetry: [
      'the result of telemetry()',
      (value) => isObject(value) && typeof value['client'] === 'function',
    ],
    insecurePlaintext: FLAG,
    secrets: [
      "'keychain', 'store' or a store",
      (value) => value === 'keychain' || value === 'store' || isStore(value),
    ],
    carriers: [
      `a list of ${CARRIERS.join(', ')}`,
      (value) => Array.isArray(value) && value.every((one) => WAYS.includes(one)),
    ],
  });
  // Checks the quotas before a store is opened.
  readQuotas(options.quotas);
}

/** Whether a server is given by its URL. */
export const isUrl = (to: unknown): to is string | URL => typeof to === 'string' || to instanceof URL;
/** Whether a server is given by its URL or its command, and not as a transport. */
export const isNamed = (to: NamedServer | TransportLike): to is NamedServer =>
  isUrl(to) || (isObject(to) && 'command' in to);

const CONNECT: TakenBy<Pick<ConnectOptions, 'jarLifetime' | 'sessions' | 'server'>> = {
  jarLifetime: ["'connection' or 'kept'", (value) => value === 'connection' || value === 'kept'],
  sessions: FLAG,
  server: [
    'the URL of a server, or { command, args }',
    (value) =>
      typeof value === 'string' ||
      (isObject(value) && ('href' in value || typeof value['command'] === 'string')),
  ],
};

const TRANSPORT: TakenBy<Pick<TransportOptions, 'jarLifetime' | 'sessionName' | 'ownSession'>> = {
  ownSession: FLAG,
  jarLifetime: CONNECT.jarLifetime,
  sessionName: ['a text or false', (value) => value === false || (typeof value === 'string' && value !== '')],
};

const STDIO: TakenBy<StdioCommand> = {
  command: TEXT,
  args: ['a list of texts', (value) => Array.isArray(value) && value.every((one) => typeof one === 'string')],
  cwd: TEXT,
  env: ['an object with variables', isObject],
  stderr: ["'inherit', 'pipe' or 'ignore'", (value) => /^(inherit|pipe|ignore)$/.test(String(value))],
  grace: ['seconds', (value) => typeof value === 'number'],
};

/** Throws if `client` is not an SDK client. */
export function checkClient(client: ClientLike): void {
  if (typeof client?.connect === 'function') return;
  throw new ValiseError('invalid-argument', 'valise.connect() was called without a client.', {
    next: 'Pass a client of either SDK, as in valise.connect(client, url).',
  });
}

/** Throws if an option of `connect` is invalid. */
export function checkConnectOptions(to: NamedServer | TransportLike, options: ConnectOptions): void {
  checkOptions('connect', options, { ...HTTP_OPTIONS, ...CONNECT });
  if (options.server === undefined || !isNamed(to)) return;
  throw new ValiseError(
    'invalid-argument',
    'The option server of connect was given with a URL or a command.',
    {
      next: 'Omit it. It names the server behind a transport of your own.',
    },
  );
}

/** Throws if an option of `transport` is invalid. */
export function checkTransportOptions(options: TransportOptions): void {
  checkOptions('transport', options, { ...HTTP_OPTIONS, ...TRANSPORT });
}

/** Throws if an option is set that applies only to a server given by its URL. */
export function checkUrlOptions(name: string, options: HttpOptions): void {
  const [option] = Object.entries(options).find(([, value]) => value !== undefined) ?? [];
  if (option === undefined) return;
  throw new ValiseError('invalid-argument', `The option ${option} of ${name} applies only to a URL.`, {
    next: 'Omit it, or pass the URL of the server.',
  });
}

/** Throws if a command, or an option of it, is invalid. */
export function checkCommand(command: StdioCommand): void {
  if (typeof command?.command !== 'string')
    throw new ValiseError('invalid-argument', 'The server to start has no command.', {
      next: "Pass the program and its arguments, as in { command: 'node', args: ['server.js'] }.",
    });
  checkOptions('a command', command, STDIO);
}
