import { ValiseError } from '../../errors.ts';
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
import { type Asker, type Held, isRefusal, type Refusal, rowOf } from './held.ts';
import { type Failed, invalid, toldTo } from './reply.ts';
import { isLiving, type Row } from './row.ts';

/** What the session methods need besides the registry. */
export interface MethodOptions extends Cradle {
  /** Tells why a session was not taken. */
  readonly refuse: (id: string, reason: string) => void;
  readonly failed: Failed;
}

type Verb = Exclude<SessionVerb, 'listen'>;

/** Answers the session methods. They never reach the SDK. */
export function sessionMethods(
  options: MethodOptions,
): (verb: Verb, exchange: Exchange, asker: Asker) => Promise<Reply> {
  const { registry, endings, keeping, refuse, failed } = options;

  const told = (exchange: Exchange, session: SessionMeta): Reply => ({
    result: sessionResult(exchange.era, toldTo(exchange, session)),
  });

  const create = async (exchange: Exchange, asker: Asker): Promise<Reply> => {
    const asked = readCreateParams(exchange.request.params);
    if (isProblem(asked)) return invalid(asked);
    return told(exchange, await createSession(options, asker, asked));
  };

  /** A sealed session is proved by its state; where only the id came, what the registry has must do. */
  const prove = async (session: SessionMeta, asker: Asker): Promise<{ readonly row: Row } | Refusal> => {
    const opened = await keeping.open(session, asker);
    if (!isRefusal(opened)) return { row: opened.found?.row ?? rowOf(opened, null) };
    if (session.state !== undefined) return opened;
    const found = await registry.find(session.sessionId);
    return found && found.row.owner === asker.owner && isLiving(found.row) ? { row: found.row } : opened;
  };

  const remove = async (exchange: Exchange, asker: Asker, { session }: Target): Promise<Reply> => {
    const proved = await prove(session, asker);
    if ('refused' in proved) return unknown(exchange, session, proved);
    return (await endings.end(session.sessionId, 'deleted', proved.row))
      ? { result: emptyResult(exchange.era) }
      : unknown(exchange, session, { refused: 'it has just ended' });
  };

  const resume = async (exchange: Exchange, asker: Asker, { session }: Target): Promise<Reply> => {
    const held = await keeping.open(session, asker);
    if (isRefusal(held)) return unknown(exchange, session, held);
    const kept = await keeping.commit(held, asker);
    if (typeof kept === 'string') return unknown(exchange, session, { refused: kept });
    const { state } = kept.state === undefined ? (await keeping.begin(held, asker)).meta : kept;
    return told(exchange, { ...kept, ...(state !== undefined && { state }) });
  };

  /**
   * As resume, for a client that has lost the state or whose state is refused: the server goes by what it keeps itself
   * (S-26). A sealed session is kept by its client alone, so without its state it stays unknown.
   */
  const recover = async (exchange: Exchange, asker: Asker, { session }: Target): Promise<Reply> => {
    const isLost = isRefusal(await keeping.open(session, asker));
    return resume(exchange, asker, { session: isLost ? { sessionId: session.sessionId } : session });
  };

  const fork = async (exchange: Exchange, asker: Asker, { session, label }: Target): Promise<Reply> => {
    const held: Held | Refusal = await keeping.open(session, asker);
    if (isRefusal(held)) return unknown(exchange, session, held);
    const beginning = { label, data: held.data.merged(), parent: held.id };
    return told(exchange, await createSession(options, asker, beginning));
  };

  const list = async ({ era, request }: Exchange, { shelf }: Asker): Promise<Reply> => {
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

  const answer = async (verb: Verb, exchange: Exchange, asker: Asker): Promise<Reply> => {
    if (verb === 'create') return create(exchange, asker);
    if (verb === 'list') return list(exchange, asker);
    const target = readTargetParams(exchange.request.params);
    if (isProblem(target)) return invalid(target);
    return { delete: remove, resume, recover, fork }[verb](exchange, asker, target);
  };

  return async (verb, exchange, asker) => {
    try {
      return await answer(verb, exchange, asker);
    } catch (error) {
      if (error instanceof ValiseError && error.code === 'bad-cursor')
        return invalid({ problem: 'bad-value', where: 'params.cursor' });
      return { error: failed(error) };
    }
  };
}

type Target = Exclude<ReturnType<typeof readTargetParams>, { readonly problem: unknown }>;
