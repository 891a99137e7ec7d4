import { ValiseError } from '../errors.ts';
import { isObject } from '../json.ts';
import type { StdioCommand } from '../link/stdio-client.ts';
import type { TransportLike } from '../link/transport.ts';
import { ANYTHING, BYTES, checkOptions, FLAG, SETTINGS, type TakenBy, TEXT } from '../options.ts';
import { isStore } from '../store/is-store.ts';
import { CARRIERS } from '../wire/index.ts';
import { HTTP_OPTIONS, type HttpOptions } from './connection/http.ts';
import { isClientStateStore } from './connection/state-store.ts';
import { readQuotas } from './jar/quotas.ts';
import type { NamedServer } from './target.ts';
import type { ClientLike, ClientValiseOptions, ConnectOptions, TransportOptions } from './valise.ts';

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
