import {
  emptyResult,
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
import { type Cradle, createSession } from './create.ts';
import { type Held, isRefusal, type Refusal, type Requester, rowOf } from './held.ts';
import { type Failed, invalid, toldTo } from './reply.ts';
import { isLiving, type Row } from './row.ts';
import { CursorError } from './shelf.ts';

/** Options of `sessionMethods`. */
export interface MethodOptions extends Cradle {
  /** Reports why a session was refused. */
  readonly refuse: (id: string, reason: string) => void;
  readonly failed: Failed;
}

type Verb = Exclude<SessionVerb, 'listen'>;

/** Creates the function that answers the session methods. They never reach the SDK. */
export function sessionMethods(
  options: MethodOptions,
): (verb: Verb, exchange: Exchange, requester: Requester) => Promise<Reply> {
  const { registry, endings, keeping, refuse, failed } = options;

  const told = (exchange: Exchange, session: SessionMeta): Reply => ({
    result: sessionResult(exchange.era, toldTo(exchange, session)),
  });

  const create = async (exchange: Exchange, requester: Requester): Promise<Reply> => {
    const asked = readCreateParams(exchange.request.params);
    if (isProblem(asked)) return invalid(asked);
    return told(exchange, await createSession(options, requester, asked));
  };

  /** Proves a session by its state, or by its record in the registry if only the id was sent. */
  const prove = async (
    session: SessionMeta,
    requester: Requester,
  ): Promise<{ readonly row: Row } | Refusal> => {
    const opened = await keeping.open(session, requester);
    if (!isRefusal(opened)) return { row: opened.found?.row ?? rowOf(opened, null) };
    if (session.state !== undefined) return opened;
    const found = await registry.find(session.sessionId);
    return found && found.row.owner === requester.owner && isLiving(found.row) ? { row: found.row } : opened;
  };

  const remove = async (exchange: Exchange, requester: Requester, { session }: Target): Promise<Reply> => {
    const proved = await prove(session, requester);
    if ('refused' in proved) return unknown(exchange, session, proved);
    return (await endings.end(session.sessionId, 'deleted', proved.row))
      ? { result: emptyResult(exchange.era) }
      : unknown(exchange, session, { refused: 'it has just ended' });
  };

  const resume = async (exchange: Exchange, requester: Requester, { session }: Target): Promise<Reply> => {
    const held = await keeping.open(session, requester);
    if (isRefusal(held)) return unknown(exchange, session, held);
    const kept = await keeping.commit(held, requester);
    if (typeof kept === 'string') return unknown(exchange, session, { refused: kept });
    const { state } = kept.state === undefined ? (await keeping.begin(held, requester)).meta : kept;
    return told(exchange, { ...kept, ...(state !== undefined && { state }) });
  };

  /**
   * Resumes a session for a client that has lost the state or whose state is refused, from the server's own record (S-26).
   *
   * A sealed session is stored only by its client, so without its state it stays unknown.
   */
  const recover = async (exchange: Exchange, requester: Requester, { session }: Target): Promise<Reply> => {
    const isLost = isRefusal(await keeping.open(session, requester));
    return resume(exchange, requester, { session: isLost ? { sessionId: session.sessionId } : session });
  };

  const fork = async (
    exchange: Exchange,
    requester: Requester,
    { session, label }: Target,
  ): Promise<Reply> => {
    const held: Held | Refusal = await keeping.open(session, requester);
    if (isRefusal(held)) return unknown(exchange, session, held);
    const beginning = { label, data: held.data.merged(), parent: held.id };
    return told(exchange, await createSession(options, requester, beginning));
  };

  const list = async ({ era, request }: Exchange, { shelf }: Requester): Promise<Reply> => {
    const asked = readListParams(request.params);
    if (isProblem(asked)) return invalid(asked);
    if (shelf === undefined) return { result: listResult(era, { sessions: [] }) };
    const { rows, next } = await registry.list(shelf, asked.cursor);
    const sessions = rows.map(({ id, expires, label }) => ({
      sessionId: id,
      expiresAt: new Date(expires).toISOString(),
      ...(label !== null && { label }),
    }));
    return { result: listResult(era, { sessions, ...(next !== undefined && { nextCursor: next }) }) };
  };

  const unknown = ({ spelling }: Exchange, { sessionId }: SessionMeta, { refused }: Refusal): Reply => {
    refuse(sessionId, refused);
    return { error: sessionNotFound(spelling.sessions, sessionId) };
  };

  const answer = async (verb: Verb, exchange: Exchange, requester: Requester): Promise<Reply> => {
    if (verb === 'create') return create(exchange, requester);
    if (verb === 'list') return list(exchange, requester);
    const target = readTargetParams(exchange.request.params);
    if (isProblem(target)) return invalid(target);
    return { delete: remove, resume, recover, fork }[verb](exchange, requester, target);
  };

  return async (verb, exchange, requester) => {
    try {
      return await answer(verb, exchange, requester);
    } catch (error) {
      if (error instanceof CursorError) return invalid({ problem: 'bad-value', where: 'params.cursor' });
      return { error: failed(error) };
    }
  };
}

type Target = Exclude<ReturnType<typeof readTargetParams>, { readonly problem: unknown }>;
