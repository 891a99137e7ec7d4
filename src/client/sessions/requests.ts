import { ValiseError } from '../../core/errors.ts';
import { FIRST_MODERN_VERSION } from '../../wire/codec.ts';
import { EXTENSION_VERSIONS } from '../../wire/extension-version.ts';
import {
  CORE,
  createParams,
  isProblem,
  isSession,
  listParams,
  type Meta,
  NAMES,
  type Params,
  type Result,
  readListResult,
  readSessionResult,
  type SessionMeta,
  type SessionVerb,
  targetParams,
} from '../../wire/index.ts';
import type { Spelling } from '../../wire/spelling.ts';
import type { Connection } from '../connection.ts';
import type { OwnRequestOptions } from '../own-requests.ts';
import { isUnknownMethod } from './errors.ts';
import type { SessionRecord } from './session.ts';

/** The method with which a v2 client reports the protocol version it uses with its server. */
interface Negotiating {
  getNegotiatedProtocolVersion?(): string | undefined;
}

/** A session in a list. */
export type Listed = Pick<SessionRecord, 'id' | 'label' | 'expiresAt'>;

const MAX_PAGES = 1000;
const MAX_LISTED = 10_000;
/** The longest session state that a client stores and sends. */
const MAX_STATE = 1024 * 1024;

/** Whether a server sent more state than a client stores. */
export function isTooLarge({ state }: SessionMeta): boolean {
  return state !== undefined && state.length > MAX_STATE;
}

/** The session methods of one connection. */
export class SessionRequests {
  readonly connection: Connection;
  readonly #client: Negotiating;

  constructor(connection: Connection, client: object) {
    this.connection = connection;
    this.#client = client;
  }

  /** The spelling of the session methods and keys at this server. */
  get spelling(): Spelling['sessions'] {
    return this.connection.server.spelling(this.connection.codec.era).sessions;
  }

  async create(label: string | undefined): Promise<SessionMeta> {
    return this.#sessionIn('create', await this.#request('create', createParams({ label })).catch(explain));
  }

  async fork(parent: SessionMeta, label: string | undefined): Promise<SessionMeta> {
    const params = targetParams(this.spelling, parent, { label });
    return this.#sessionIn('fork', await this.#request('fork', params).catch(explain));
  }

  async resume(
    { sessionId, state }: SessionMeta,
    verb: 'resume' | 'recover' = 'resume',
  ): Promise<SessionMeta> {
    const sent = state === undefined ? { sessionId } : { sessionId, state };
    const resumed = this.#sessionIn(verb, await this.#request(verb, targetParams(this.spelling, sent)));
    if (resumed.sessionId !== sessionId) throw badResult(verb);
    return resumed;
  }

  async delete(session: SessionMeta, timeout?: number): Promise<void> {
    await this.#request('delete', targetParams(this.spelling, session), { timeout }).catch(explain);
  }

  /** Returns all pages of the list. Returns undefined if the server has no list. */
  async list(): Promise<readonly Listed[] | undefined> {
    const listed: Listed[] = [];
    let cursor: string | undefined;
    for (let pages = 0; pages < MAX_PAGES; pages++) {
      const result = await this.#request('list', listParams({ cursor })).catch(unlessUnknown);
      if (!result) return undefined;
      const page = readListResult(result);
      if (isProblem(page)) throw badResult('list');
      for (const { sessionId, label, expiresAt } of page.sessions)
        listed.push({ id: sessionId, label, expiresAt });
      if (listed.length >= MAX_LISTED) {
        this.#reportTooMany();
        return listed.slice(0, MAX_LISTED);
      }
      if (page.nextCursor === undefined || page.nextCursor === cursor) break;
      cursor = page.nextCursor;
    }
    return listed;
  }

  /** Listens until the server ends the stream. Resolves with the result of a poll. */
  listen(params: Params, options: OwnRequestOptions): Promise<Result> {
    return this.#request('listen', params, options);
  }

  #reportTooMany(): void {
    const what = `The server lists more than ${MAX_LISTED} sessions. The rest are left out.`;
    const error = new ValiseError('limit-reached', what, {
      next: 'Delete some, or report it to the author of the server.',
    });
    this.connection.transport.onerror?.(error);
  }

  #sessionIn(verb: SessionVerb, result: Result): SessionMeta {
    const session = readSessionResult(result);
    if (!isSession(session) || isTooLarge(session)) throw badResult(verb);
    this.connection.server.showSessions();
    return session;
  }

  /** Sends a session request, with the method name that this server uses. */
  #request(verb: SessionVerb, params: Params = {}, options?: OwnRequestOptions): Promise<Result> {
    const { unsupported } = this.connection.server.families;
    if (unsupported?.sessions !== undefined) return Promise.reject(otherVersion(unsupported.sessions));
    const _meta = this.connection.codec.isStateless ? { ...this.#envelope(), ...params._meta } : params._meta;
    return this.connection.request(
      NAMES[this.spelling].method[verb],
      { ...params, ...(_meta && { _meta }) },
      options,
    );
  }

  /**
   * Returns the envelope of a request without a transport session. This request may be the first that the connection sees, so nothing else may
   * show its era.
   */
  #envelope(): Meta {
    return {
      [CORE.protocolVersion]: this.#client.getNegotiatedProtocolVersion?.() ?? FIRST_MODERN_VERSION,
      [CORE.clientCapabilities]: {},
    };
  }
}

function unlessUnknown(error: unknown): undefined {
  if (!isUnknownMethod(error)) throw error;
  return undefined;
}

/** Rethrows a server error, with an explanation if the server has no sessions. */
export function explain(error: unknown): never {
  if (!isUnknownMethod(error)) throw error;
  throw new ValiseError('no-sessions', 'The server does not support the session methods.', {
    next: 'Call it without a session, or ask its author for data-layer sessions.',
    cause: error,
  });
}

function otherVersion(theirs: string): ValiseError {
  return new ValiseError(
    'no-sessions',
    `The server supports version ${theirs} of sessions, and this client ${EXTENSION_VERSIONS.sessions.join(', ')}.`,
    { next: 'Update mcp-valise on the side that is older.', outcome: 'not-done' },
  );
}

function badResult(verb: string): ValiseError {
  return new ValiseError(
    'request-failed',
    `The response of the server to sessions/${verb} is not a session.`,
    {
      next: 'Report it to the author of the server. The session is not used.',
    },
  );
}
