import { ValiseError } from '../../core/errors.ts';
import { isObject, type Json } from '../../core/json.ts';
import { sha256 } from '../../core/sha256.ts';
import { declareSecrecy } from '../../store/driver.ts';
import { collection, type Members } from '../../store/kit/collection.ts';
import { memoryStore } from '../../store/memory/store.ts';
import type { Entry, Store } from '../../store/types.ts';
import { CODECS, type Codec, codecNamed, codecOfVersion, SESSIONFUL } from '../../wire/codec.ts';
import type { Result } from '../../wire/index.ts';
import { isSubject } from '../identity/account.ts';
import { type ConnectionId, keyOf, targetKey } from '../identity/target.ts';
import { CREDENTIALS, type Credentials, readCredentials } from '../oauth/credentials.ts';
import { readSnapshot, SNAPSHOTS } from './snapshot.ts';

/** The OAuth access token for `Authorization` headers. */
export interface TokenInfo {
  readonly accessToken: string;
  /** When it expires, in milliseconds since 1970. */
  readonly expiresAt?: number | undefined;
  /**
   * What renews the token without the user: the refresh token and the registration, as text. A store may omit it, but the
   * user then signs in again when the token expires.
   */
  readonly details?: string | undefined;
}

/** What the server said about itself in its introduction. */
export interface ServerMetadata {
  readonly protocolVersion: string;
  /** The server's capabilities as JSON text. If it cannot be parsed, the server is asked again. */
  readonly capabilitiesJson: string;
  /** The server's name and version as JSON text. */
  readonly serverInfoJson?: string | undefined;
  readonly instructions?: string | undefined;
  /** A digest that identifies the user's account. A store that omits it must belong to only one user. */
  readonly account?: string | undefined;
}

/** A value, a promise of one, or nothing. */
export type Maybe<T> = T | null | undefined | Promise<T | null | undefined>;

/**
 * Stores the state of **one** connection, in the shape that was requested for the Java SDK. It is for hosts that bring
 * their own store, such as a row in their database or a secret in their vault. It is accepted wherever a store is. Data
 * that does not fit into it, such as the jar, is then in memory. Several calls may be in progress at once.
 *
 * @example
 * ```ts
 * const valise = await openValise({ store: new MyJdbcBackedStateStore('my-client-key') });
 * ```
 */
export interface ClientStateStore {
  /** Called with the session id that `initialize` returned. */
  setSessionId(sessionId: string): void | Promise<void>;
  /** Called before the first request. The returned id is sent as `Mcp-Session-Id`. */
  getSessionId(): Maybe<string>;
  /** Called when the server says that the session is over. */
  clearSessionId(): void | Promise<void>;
  setAccessToken(token: TokenInfo): void | Promise<void>;
  getAccessToken(): Maybe<TokenInfo>;
  /** Called when the token is revoked or expired. */
  clearAccessToken(): void | Promise<void>;
  setServerMetadata(metadata: ServerMetadata): void | Promise<void>;
  getServerMetadata(): Maybe<ServerMetadata>;
  /** Called when the stored version is no longer valid. */
  clearServerMetadata(): void | Promise<void>;
}

/** Whether a store has the shape of {@link ClientStateStore}. */
export function isClientStateStore(store: unknown): store is ClientStateStore {
  return isObject(store) && typeof store['getSessionId'] === 'function';
}

/**
 * Exposes what Valise stores of one connection as a {@link ClientStateStore}: to inspect it, to fill it from elsewhere, or
 * to pass it to code written for that shape.
 *
 * @example
 * ```ts
 * const state = asClientStateStore(fileStore('./mcp-state.json'), 'https://example.com/mcp');
 * await state.getSessionId();
 * ```
 */
export function asClientStateStore(
  store: Store,
  target: string | URL,
  { principal = '' }: { readonly principal?: string | undefined } = {},
): ClientStateStore {
  const id: ConnectionId = { target: targetKey({ kind: 'http', url: new URL(target) }), principal };
  const snapshots = collection(store, `${keyOf('connection', id)}/`, SNAPSHOTS);
  const credentials = collection(store, '', CREDENTIALS);
  const key = keyOf('credentials', id);
  const snapshot = async (): Promise<Members> => {
    for (const { era } of Object.values(CODECS)) {
      const value = (await snapshots.get(era))?.value;
      if (value) return value;
    }
    return {};
  };
  const change = async ({ era }: Codec, edit: (now: Members) => object): Promise<void> => {
    await snapshots.update(era, (found) => ({ ...id, ...edit(found?.value ?? { era }) }));
  };
  return {
    setSessionId: (sessionId) =>
      change(SESSIONFUL, ({ over: _, ...now }) => ({ ...now, sessionId, savedAt: Date.now() })),
    async getSessionId() {
      const { sessionId } = await snapshot();
      return typeof sessionId === 'string' ? sessionId : undefined;
    },
    clearSessionId: () =>
      change(SESSIONFUL, ({ sessionId: _, lastEventId: __, ...now }) => ({ ...now, over: true })),
    async setAccessToken(token) {
      await credentials.update(key, () => ({ ...id, ...credentialsOf(token) }));
    },
    async getAccessToken() {
      return tokenInfoOf(readCredentials((await credentials.get(key))?.value));
    },
    async clearAccessToken() {
      await credentials.update(key, (found) => found?.value && { ...found.value, tokens: undefined });
    },
    setServerMetadata(metadata) {
      const { protocolVersion } = metadata;
      return change(codecOfVersion(protocolVersion), (now) => ({
        ...now,
        protocolVersion,
        introduction: introductionOf(metadata),
        savedAt: Date.now(),
      }));
    },
    async getServerMetadata() {
      return metadataOf(await snapshot());
    },
    async clearServerMetadata() {
      for (const { era } of Object.values(CODECS))
        await snapshots.update(
          era,
          (found) => found?.value && { ...found.value, introduction: undefined, protocolVersion: undefined },
        );
    },
  };
}

/** Returns the token, with all other credentials as one text beside it. */
function tokenInfoOf(credentials: Credentials): TokenInfo | undefined {
  const { tokens } = credentials;
  if (!tokens) return undefined;
  return {
    accessToken: tokens.access_token,
    ...(tokens.expiresAt !== undefined && { expiresAt: tokens.expiresAt }),
    details: JSON.stringify(credentials),
  };
}

/** Reverses {@link tokenInfoOf}. Without details, there is only a token. */
function credentialsOf({ accessToken, expiresAt, details }: TokenInfo): Credentials {
  const all = readCredentials(parse(details));
  const tokens = all.tokens?.access_token === accessToken ? all.tokens : undefined;
  return {
    ...all,
    tokens: tokens ?? {
      access_token: accessToken,
      token_type: 'Bearer',
      ...(expiresAt !== undefined && { expiresAt }),
    },
  };
}

/** Returns the server metadata of a stored snapshot. */
function metadataOf(value: unknown): ServerMetadata | undefined {
  const snapshot = readSnapshot(isObject(value) ? { ...value, over: false } : value);
  if (!snapshot) return undefined;
  const { introduction, protocolVersion, codec, account } = snapshot;
  const { capabilities = {}, serverInfo, instructions } = introduction;
  const whole = codec.isStateless ? introduction : serverInfo;
  return {
    protocolVersion,
    capabilitiesJson: JSON.stringify(capabilities),
    ...(whole !== undefined && { serverInfoJson: JSON.stringify(whole) }),
    ...(typeof instructions === 'string' && { instructions }),
    // An account that is only a token's digest would not match a token that was renewed elsewhere.
    ...(account !== undefined && isSubject(account) && { account }),
  };
}

/**
 * Returns the `initialize` or `server/discover` result that the metadata represents. Returns undefined if a text cannot be
 * parsed: the server must then be asked again, because it may well have capabilities.
 */
function introductionOf(metadata: ServerMetadata): Result | undefined {
  const { protocolVersion, capabilitiesJson, serverInfoJson, instructions } = metadata;
  const info = parse(serverInfoJson);
  // A discovery result has more than these two fields, and all of it is needed, so the second text contains it unchanged.
  if (codecOfVersion(protocolVersion).isStateless) return isObject(info) ? (info as Result) : undefined;
  const capabilities = parse(capabilitiesJson);
  if (!isObject(capabilities)) return undefined;
  return {
    protocolVersion,
    capabilities,
    serverInfo: isObject(info) ? info : { name: 'unknown', version: '0' },
    ...(instructions !== undefined && instructions !== null && { instructions }),
  };
}

/** Returns the record of a snapshot from a host's store. */
function recordOf(sessionId: string | undefined, metadata: ServerMetadata, savedAt: number): Members {
  const { protocolVersion, account } = metadata;
  return {
    era: codecOfVersion(protocolVersion).era,
    protocolVersion,
    introduction: introductionOf(metadata),
    savedAt,
    account,
    ...(sessionId !== undefined && { sessionId }),
  };
}

function parse(text: string | null | undefined): unknown {
  if (typeof text !== 'string') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** What a host's store has a place for: the snapshot of one revision, and the credentials. */
type Slot = Codec | 'credentials';

/**
 * Adapts a host's {@link ClientStateStore} to a Valise store. It stores one connection. Everything that has no place in it
 * is in memory and ends with the process.
 */
export function fromClientStateStore(host: ClientStateStore): Store {
  const memory = memoryStore();
  // The host's store does not say when its data was saved.
  const since = Date.now();
  let claimed: string | undefined;

  /** Returns the slot that a key belongs to. Returns undefined if the host's store has no place for it. */
  const slotOf = (key: string): Slot | undefined => {
    const [, kind, target, name] = /^(connection|credentials)\/([\w-]+\/[\w-]+)(?:\/(\w+))?$/.exec(key) ?? [];
    const slot = kind === 'connection' ? codecNamed(name) : kind && !name ? 'credentials' : undefined;
    if (!slot) return undefined;
    claimed ??= target;
    if (claimed !== target) throw new OtherTargetError();
    return slot;
  };

  const read = async (slot: Slot, key: string): Promise<Json | undefined> => {
    const own = (await memory.get(key))?.value;
    if (slot === 'credentials') {
      const token = await host.getAccessToken();
      return token ? json({ ...(isObject(own) && own), ...credentialsOf(token) }) : own;
    }
    const metadata = await host.getServerMetadata();
    const sessionId = (await host.getSessionId()) ?? undefined;
    const record = metadata && recordOf(sessionId, metadata, since);
    if (!record || readSnapshot(record)?.codec !== slot) return undefined;
    // This process remembers more of the same session than the host's store has a place for.
    const same = isObject(own) && own['sessionId'] === sessionId;
    return json({ ...record, ...(same && own) });
  };

  const entry = async (slot: Slot, key: string): Promise<Entry | undefined> => {
    const value = await read(slot, key);
    return value === undefined ? undefined : { value, version: versionOf(value) };
  };

  const write = async (slot: Slot, value: Json): Promise<void> => {
    if (slot === 'credentials') {
      const token = tokenInfoOf(readCredentials(value));
      if (token) await host.setAccessToken(token);
      else if (await host.getAccessToken()) await host.clearAccessToken();
      return;
    }
    const metadata = metadataOf(value);
    if (!metadata) return;
    const sessionId = isObject(value) ? value['sessionId'] : undefined;
    if (typeof sessionId === 'string') {
      if ((await host.getSessionId()) !== sessionId) await host.setSessionId(sessionId);
    } else if (!slot.isStateless && (await host.getSessionId())) await host.clearSessionId();
    if (JSON.stringify(await host.getServerMetadata()) !== JSON.stringify(metadata))
      await host.setServerMetadata(metadata);
  };

  const clear = async (slot: Slot): Promise<void> => {
    if (slot === 'credentials') return void (await host.clearAccessToken());
    if (!slot.isStateless) await host.clearSessionId();
    await host.clearServerMetadata();
  };

  // Operations run one at a time, so that nothing comes between a condition and the write that depends on it.
  let turn: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const done = turn.then(work);
    turn = done.catch(() => {});
    return done;
  };

  const store: Store = {
    async get(key) {
      const slot = slotOf(key);
      return slot ? inTurn(() => entry(slot, key)) : memory.get(key);
    },
    async put(key, value, options = {}) {
      const slot = slotOf(key);
      if (!slot) return memory.put(key, value, options);
      return inTurn(async () => {
        const now = await entry(slot, key);
        if (options.ifAbsent && now) return undefined;
        if (options.ifVersion !== undefined && now?.version !== options.ifVersion) return undefined;
        await memory.put(key, value);
        await write(slot, value);
        const written = await read(slot, key);
        return versionOf(written ?? value);
      });
    },
    async delete(key, options = {}) {
      const slot = slotOf(key);
      if (!slot) return memory.delete(key, options);
      return inTurn(async () => {
        const now = await entry(slot, key);
        if (!now || (options.ifVersion !== undefined && now.version !== options.ifVersion)) return false;
        await memory.delete(key);
        await clear(slot);
        return true;
      });
    },
    list: (prefix, options) => memory.list(prefix, options),
    lease: (key, ttl) => memory.lease(key, ttl),
    close: () => memory.close(),
  };
  return declareSecrecy(store, 'host');
}

function json(value: object): Json {
  return JSON.parse(JSON.stringify(value)) as Json;
}

function versionOf(value: Json): string {
  const { savedAt: _, ...rest } = (isObject(value) ? value : {}) as Record<string, unknown>;
  return sha256(JSON.stringify(rest));
}

/** Thrown when a {@link ClientStateStore} has the state of another server. */
export class OtherTargetError extends ValiseError {
  constructor() {
    super(
      'invalid-argument',
      'A ClientStateStore stores one connection, and this one stores another server.',
      {
        next: 'Use a store for each server: valise.connect(client, url, { store }).',
      },
    );
  }
}
