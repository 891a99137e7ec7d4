/**
 * The two eras of the protocol. `legacy` starts with `initialize` (up to 2025-11-25); `modern` carries its metadata in
 * each request (2026-07-28 and later).
 */
export type Era = 'legacy' | 'modern';

/** How long a piece of jar state lives: until the session ends, or until the server removes it. */
export type Scope = 'session' | 'server';

/** How the sealed context of a round travels to a client that supports the drafts, in the client's order of preference. */
export type Carrier = 'state' | 'dependent-shared' | 'dependent-each';

/** Every name that the four families use on the wire, for one column of the table. */
export interface Names {
  /**
   * The names of the jar. `key` is the single `_meta` key that holds both scopes. If it is undefined, each scope is a
   * `_meta` key.
   */
  readonly state: {
    readonly key: string | undefined;
    readonly session: string;
    readonly server: string;
    readonly attributes: string;
  };
  /** The `_meta` key of the session a message belongs to. */
  readonly session: string;
  /** The `_meta` key of the sequence number of the session's state. */
  readonly seq: string;
  /** The key in the data of a "session not found" error that says a handler had already started. */
  readonly begun: string;
  /**
   * The key in the data of an error that says whether the request was not done, so that it is safe to send again, or
   * whether that is unknown.
   */
  readonly outcome: string;
  /**
   * The names of calls that may be repeated. `key` and `repeat` are `_meta` keys of a request: the client's key for the call,
   * and the mark of a call whose earlier answer was lost. `tool` is the `_meta` key with which a tool's config declares that
   * its calls may be repeated.
   */
  readonly idempotency: { readonly key: string; readonly repeat: string; readonly tool: string };
  /** The `_meta` key of the time at which a question expires, as ISO 8601. */
  readonly expiresAt: string;
  /** The `_meta` key of a listener's request and position. */
  readonly listen: string;
  /**
   * The `_meta` key of `{ protocolVersion, capabilities }` as JSON text, with which a client introduces itself to a
   * server instance that has not seen its `initialize`. Modern requests carry this under the core's keys.
   */
  readonly introduction: string;
  readonly method: {
    readonly create: string;
    readonly delete: string;
    readonly list: string;
    readonly resume: string;
    readonly recover: string;
    readonly fork: string;
    readonly listen: string;
  };
  readonly notification: { readonly listening: string };
  readonly code: {
    readonly sessionNotFound: number;
    readonly sessionRequired: number;
    /** Valise's own code in both eras, because no draft defines one. */
    readonly sessionConflict: number;
  };
  readonly header: { readonly session: string; readonly protocolVersion: string };
  /** The top-level names in `capabilities`: of the jar on the client, of sessions on the server. */
  readonly capability: { readonly state: string; readonly sessions: string };
  /** The identifiers in `capabilities.extensions`. */
  readonly extension: {
    readonly state: string;
    readonly sessions: string;
    readonly rounds: string;
    readonly idempotency: string;
  };
  /** The annotation of a tool whose sessions hold expensive resources, so that clients delete them early. */
  readonly annotation: { readonly resourceAllocation: string };
  /** The fields that carry the questions, answers and context of a round. */
  readonly rounds: { readonly requests: string; readonly responses: string; readonly state: string };
}

/**
 * The single table of wire names: (family, column) → keys, methods, codes, headers, extension ids.
 *
 * The legacy column follows the drafts. The modern column is what Valise writes when it speaks first on 2026-07-28,
 * which reserves the `io.modelcontextprotocol/` prefix and the codes -32020 … -32099 and allows one slash in a `_meta`
 * name. A peer that uses one of the columns is answered in the same column, in either era: see `Spelling`. Names that
 * no draft defines (attributes, sequence, listener position, idempotency) use Valise's own prefix in both columns.
 *
 * @example
 * ```ts
 * NAMES[spelling.sessions].session; // 'io.modelcontextprotocol/session' or 'dev.valise/session'
 * ```
 */
export const NAMES = {
  legacy: {
    state: {
      key: undefined,
      session: 'modelcontextprotocol.io/state/session',
      server: 'modelcontextprotocol.io/state/server',
      attributes: 'dev.valise/state-attributes',
    },
    session: 'io.modelcontextprotocol/session',
    seq: 'dev.valise/seq',
    begun: 'dev.valise/begun',
    outcome: 'dev.valise/outcome',
    idempotency: {
      key: 'dev.valise/idempotencyKey',
      repeat: 'dev.valise/repeat',
      tool: 'dev.valise/idempotent',
    },
    expiresAt: 'dev.valise/expiresAt',
    listen: 'dev.valise/listen',
    introduction: 'dev.valise/client',
    method: {
      create: 'sessions/create',
      delete: 'sessions/delete',
      list: 'sessions/list',
      resume: 'sessions/resume',
      recover: 'sessions/recover',
      fork: 'sessions/fork',
      listen: 'messages/listen',
    },
    notification: { listening: 'notifications/messages/listen' },
    code: { sessionNotFound: -32043, sessionRequired: -32044, sessionConflict: -31045 },
    header: { session: 'Mcp-Session-Id', protocolVersion: 'Mcp-Protocol-Version' },
    capability: { state: 'state', sessions: 'sessions' },
    extension: {
      state: 'dev.valise/state',
      sessions: 'dev.valise/sessions',
      rounds: 'dev.valise/rounds',
      idempotency: 'dev.valise/idempotency',
    },
    annotation: { resourceAllocation: 'resourceAllocation' },
    rounds: { requests: 'dependent_requests', responses: 'dependent_responses', state: 'state' },
  },
  modern: {
    state: {
      key: 'dev.valise/state',
      session: 'session',
      server: 'server',
      attributes: 'dev.valise/state-attributes',
    },
    session: 'dev.valise/session',
    seq: 'dev.valise/seq',
    begun: 'dev.valise/begun',
    outcome: 'dev.valise/outcome',
    idempotency: {
      key: 'dev.valise/idempotencyKey',
      repeat: 'dev.valise/repeat',
      tool: 'dev.valise/idempotent',
    },
    expiresAt: 'dev.valise/expiresAt',
    listen: 'dev.valise/listen',
    introduction: 'dev.valise/client',
    method: {
      create: 'dev.valise/sessions/create',
      delete: 'dev.valise/sessions/delete',
      list: 'dev.valise/sessions/list',
      resume: 'dev.valise/sessions/resume',
      recover: 'dev.valise/sessions/recover',
      fork: 'dev.valise/sessions/fork',
      listen: 'dev.valise/listen',
    },
    notification: { listening: 'notifications/dev.valise/listen' },
    code: { sessionNotFound: -31043, sessionRequired: -31044, sessionConflict: -31045 },
    header: { session: 'Valise-Session-Id', protocolVersion: 'Mcp-Protocol-Version' },
    capability: { state: 'state', sessions: 'sessions' },
    extension: {
      state: 'dev.valise/state',
      sessions: 'dev.valise/sessions',
      rounds: 'dev.valise/rounds',
      idempotency: 'dev.valise/idempotency',
    },
    annotation: { resourceAllocation: 'resourceAllocation' },
    rounds: { requests: 'inputRequests', responses: 'inputResponses', state: 'requestState' },
  },
} as const satisfies Readonly<Record<Era, Names>>;

/** The `_meta` key of the time at which a question expires. It is the same in both columns. */
export const EXPIRES_AT = NAMES.modern.expiresAt;

/** Names from earlier drafts. Valise reads them and never writes them. */
export const DRAFTS = {
  /** The keys of the jar, as part of its draft spells them. */
  state: {
    session: 'http://modelcontextprotocol.io/state/session',
    server: 'http://modelcontextprotocol.io/state/server',
  },
  session: 'mcp/session',
  /** The key of a call without a prefix, as hosts write it by hand. */
  idempotencyKey: 'idempotencyKey',
  method: {
    create: 'session/create',
    delete: 'session/delete',
    list: 'session/list',
    resume: 'session/resume',
    recover: 'session/recover',
  },
  /** A typo in one draft, and a code that has other meanings elsewhere. */
  code: { sessionNotFound: -34043, sessionRequired: -32002 },
} as const;

/** The `_meta` keys of the 2026-07-28 core that Valise reads. */
export const CORE = {
  protocolVersion: 'io.modelcontextprotocol/protocolVersion',
  clientCapabilities: 'io.modelcontextprotocol/clientCapabilities',
  clientInfo: 'io.modelcontextprotocol/clientInfo',
  serverInfo: 'io.modelcontextprotocol/serverInfo',
} as const;

/** All carriers, in the order that the Valise client prefers. */
export const CARRIERS: readonly Carrier[] = ['state', 'dependent-shared', 'dependent-each'];
