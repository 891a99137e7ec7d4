import {
  isProblem,
  listResult,
  readCreateParams,
  readListParams,
  readTargetParams,
  type SessionMeta,
  type SessionVerb,
  sessionNotFound,
  sessionResult,
} from '../../wire/index.ts';
import type { Exchange, Reply } from '../exchange.ts';
import { isRefusal, metaFor, type OpenSession, type Refusal, type Requester } from './backend.ts';
import { type CreateOptions, createSession } from './create.ts';
import { type Failed, invalid } from './errors.ts';
import { isAlive, type SessionRecord } from './records.ts';

/** Options of {@link SessionMethods}. */
export interface SessionMethodsOptions extends CreateOptions {
  /** Reports why a session was refused. */
  readonly refuse: (id: string, reason: string) => void;
  readonly failed: Failed;
}

type Verb = Exclude<SessionVerb, 'listen'>;
type Target = Exclude<ReturnType<typeof readTargetParams>, { readonly problem: unknown }>;

/** Answers the session methods. They never reach the SDK. */
export class SessionMethods {
  readonly #options: SessionMethodsOptions;

  constructor(options: SessionMethodsOptions) {
    this.#options = options;
  }

  async answer(verb: Verb, exchange: Exchange, requester: Requester): Promise<Reply> {
    const { params } = exchange.request;
    try {
      if (verb === 'create') return await this.#create(exchange, requester);
      if (verb === 'list') return await this.#list(exchange, requester);
      const target = readTargetParams(params);
      if (isProblem(target)) return invalid(target);
      switch (verb) {
        case 'delete':
          return await this.#delete(exchange, requester, target);
        case 'resume':
          return await this.#resume(exchange, requester, target);
        case 'recover':
          return await this.#recover(exchange, requester, target);
        case 'fork':
          return await this.#fork(exchange, requester, target);
      }
    } catch (error) {
      return { error: this.#options.failed(error) };
    }
  }

  async #create(exchange: Exchange, requester: Requester): Promise<Reply> {
    const asked = readCreateParams(exchange.request.params);
    if (isProblem(asked)) return invalid(asked);
    return this.#found(exchange, await createSession(this.#options, requester, asked));
  }

  async #list({ request }: Exchange, requester: Requester): Promise<Reply> {
    const asked = readListParams(request.params);
    if (isProblem(asked)) return invalid(asked);
    const page =
      requester.index === undefined
        ? { records: [] }
        : await this.#options.index.page(requester.index, asked.cursor);
    if (!page) return invalid({ problem: 'bad-value', where: 'params.cursor' });
    const sessions = page.records.map(({ id, expires, label }) => ({
      sessionId: id,
      expiresAt: new Date(expires).toISOString(),
      ...(label !== null && { label }),
    }));
    const { next: nextCursor } = page;
    return {
      result: listResult({ sessions, ...(nextCursor !== undefined && { nextCursor }) }),
    };
  }

  async #delete(exchange: Exchange, requester: Requester, { session }: Target): Promise<Reply> {
    const record = await this.#authenticate(session, requester);
    if ('refused' in record) return this.#unknown(exchange, session, record);
    return (await this.#options.expiry.end(session.sessionId, 'deleted', record))
      ? { result: {} }
      : this.#unknown(exchange, session, { refused: 'it has just ended' });
  }

  /** Returns the record of a session that its state proves, or that is in the store if only the id was sent. */
  async #authenticate(session: SessionMeta, requester: Requester): Promise<SessionRecord | Refusal> {
    const { backend, records } = this.#options;
    const opened = await backend.open(session, requester);
    if (!isRefusal(opened)) return opened.stored?.record ?? opened.record;
    if (session.state !== undefined) return opened;
    const { record } = (await records.find(session.sessionId)) ?? {};
    return record && record.owner === requester.owner && isAlive(record) ? record : opened;
  }

  async #resume(exchange: Exchange, requester: Requester, { session }: Target): Promise<Reply> {
    const { backend } = this.#options;
    const opened = await backend.open(session, requester);
    if (isRefusal(opened)) return this.#unknown(exchange, session, opened);
    const committed = await backend.commit(opened, requester);
    if (typeof committed === 'string') return this.#unknown(exchange, session, { refused: committed });
    if (committed.state !== undefined) return this.#found(exchange, committed);
    // Nothing was written, so the client gets the present state again.
    const { state } = (await backend.begin(opened, requester)).meta;
    return this.#found(exchange, { ...committed, ...(state !== undefined && { state }) });
  }

  /**
   * Resumes a session for a client that has lost the state or whose state is refused, from the server's own record (S-26).
   *
   * A sealed session is stored only by its client, so without its state it stays unknown.
   */
  async #recover(exchange: Exchange, requester: Requester, { session }: Target): Promise<Reply> {
    const isLost = isRefusal(await this.#options.backend.open(session, requester));
    return this.#resume(exchange, requester, {
      session: isLost ? { sessionId: session.sessionId } : session,
    });
  }

  async #fork(exchange: Exchange, requester: Requester, { session, label }: Target): Promise<Reply> {
    const opened: OpenSession | Refusal = await this.#options.backend.open(session, requester);
    if (isRefusal(opened)) return this.#unknown(exchange, session, opened);
    const initial = { label, values: opened.state.merged(), parent: opened.record.id };
    return this.#found(exchange, await createSession(this.#options, requester, initial));
  }

  #found(exchange: Exchange, session: SessionMeta): Reply {
    return { result: sessionResult(metaFor(exchange, session)) };
  }

  #unknown({ spelling }: Exchange, { sessionId }: SessionMeta, { refused }: Refusal): Reply {
    this.#options.refuse(sessionId, refused);
    return { error: sessionNotFound(spelling.sessions, sessionId) };
  }
}
