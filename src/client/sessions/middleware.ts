import { messageOf, ValiseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { redactUrls } from '../../core/redact-urls.ts';
import {
  allocatesResources,
  INTRODUCTIONS,
  isListening,
  isProblem,
  isSession,
  type Response,
  readNotificationTag,
  readSession,
  readSessionError,
  type SessionReading,
  sessionMethod,
  writeSession,
} from '../../wire/index.ts';
import { sessionHeader, withoutSession } from '../../wire/session.ts';
import type { Call } from '../call.ts';
import type { ClientMiddleware, ClientPart, Connection } from '../connection.ts';
import { targetKey } from '../identity/target.ts';
import { sessionsLacking } from './errors.ts';
import { isTooLarge } from './requests.ts';
import { ServerSessions, type SessionsOptions, timesOf } from './server-sessions.ts';
import type { SessionRecord } from './session.ts';
import { type OpenSession, type Running, running } from './session.ts';
import type { ClientSessions, SessionsAccess } from './types.ts';

/** The maximum number of tools per server that are remembered as allocating expensive resources. */
const MAX_COSTLY = 1000;
const MAX_TOOL_NAME = 1024;

/** Lets a call that waits for an answer continue in its session, even in another process. */
export interface Returning {
  /** Returns the session that a call was sent in, with all that a later process needs to use it. */
  sessionOf(call: Call): SessionRecord | undefined;
  /** Records that the call of a pending question was made in a session. */
  waits(connection: Connection, session: SessionRecord, question: string): void;
  /** Marks a pending question as answered or dropped. */
  over(question: string): void;
  /** Adds the call's current session to the answer to a question asked during the call. */
  naming(connection: Connection, session: string | undefined, answer: Response): Response;
  /** Runs `work` in a stored session. */
  inside<Value>(connection: Connection, session: SessionRecord, work: () => Promise<Value>): Promise<Value>;
}

/** The client side of family S. */
export interface SessionsFamily {
  readonly part: ClientPart;
  /** Runs the calls of a serial session one at a time. */
  readonly turns: ClientMiddleware;
  /** Sends each call in its session, and applies the session metadata of the response. */
  readonly middleware: ClientMiddleware;
  readonly access: SessionsAccess;
  /** Lets calls that wait for answers return to their session. */
  readonly returning: Returning;
  /** Removes the stored sessions of a server that the user signed out of, for every account. Returns their ids. */
  forget(target: string): Promise<readonly string[]>;
  /** Registers a connected client. Its sessions are available from then on. */
  connected(client: object, connection: Connection): void;
}

/** The session and order number that a call was sent with. */
interface Sent {
  readonly id: string;
  readonly order: number;
}

/** Creates the client side of family S. */
export function createSessions(options: SessionsOptions): SessionsFamily {
  const byTarget = new Map<string, readonly ServerSessions[]>();
  const byConnection = new WeakMap<Connection, ServerSessions>();
  const byClient = new WeakMap<object, ServerSessions>();
  const costly = new WeakMap<Connection, Set<string>>();
  /** The sessions of calls that wait for an answer, by the id of their pending question. */
  const waiting = new Map<string, OpenSession>();

  /** Returns the sessions with the server of a connection, its own first. */
  const sessionsAt = (connection: Connection): readonly ServerSessions[] => {
    const own = byConnection.get(connection);
    const others = (own?.mayStore && byTarget.get(own.target)) || [];
    const { name } = connection.account;
    return own ? [own, ...others.filter((each) => each !== own && each.account.name === name)] : [];
  };

  const find = (connection: Connection, id: string | undefined): OpenSession | undefined => {
    if (id === undefined) return undefined;
    for (const sessions of sessionsAt(connection)) {
      const session = sessions.find(id);
      if (session) return session;
    }
    return undefined;
  };

  const attach = (call: Call, session: OpenSession): Sent => {
    session.check(call.hasBegun);
    if (call.connection.server.lacksSessions) throw sessionsLacking(session.label);
    const { id } = session;
    call.session = id;
    call.addMeta('session', writeSession(call.spelling.sessions, session.sent()));
    mirror(call, { sessionId: id });
    if (isCostly(call)) session.allocates = true;
    return { id, order: session.nextCall() };
  };

  /**
   * Returns the session a call is made in. Code that runs in a session may also call other servers, which must not receive it.
   */
  const sessionOf = ({ connection, method }: Call): Running | undefined => {
    const run = running.current;
    if (!run || INTRODUCTIONS.has(method) || sessionMethod(method)) return undefined;
    return sessionsAt(connection).includes(run.session.sessions) ? run : undefined;
  };

  const isCostly = ({ connection, method, request }: Call): boolean =>
    method === 'tools/call' && (costly.get(connection)?.has(String(request.params?.['name'])) ?? false);

  /** Applies the session metadata of a response. */
  const settle = async (session: OpenSession, sent: Sent, response: Response): Promise<Response> => {
    if (!('result' in response)) return response;
    const reading = readSession(response.result._meta);
    if (reading === undefined) return response;
    // Applied metadata is removed from the result, because hosts show results to models.
    const passed = { ...response, result: withoutSession(response.result) };
    if (reading === null) return session.sessions.gone(session, sent.id).then(() => passed, warned(passed));
    if (isProblem(reading)) return refused(session, `${reading.problem} at ${reading.where}`, response);
    if (!isSession(reading)) return response;
    if (isTooLarge(reading)) return refused(session, 'its state is too large', response);
    if (reading.sessionId !== sent.id) return refused(session, 'the answer names another session', response);
    if (session.id !== sent.id || !session.update(reading, sent.order) || !session.isStored) return passed;
    return session.sessions.save(session).then(() => passed, warned(passed));
  };

  /** Returns a value if the server no longer has the session of a call. It says whether a handler had begun. */
  const lossIn = (response: Response, { id }: Sent): { readonly begun?: boolean } | undefined => {
    const reading = 'error' in response ? readSessionError(response.error) : undefined;
    return reading?.kind === 'not-found' && (reading.sessionId ?? id) === id ? reading : undefined;
  };

  const refused = (session: OpenSession, reason: string, response: Response): Response => {
    options.events.emit('session-refused', {
      server: redactUrls(session.sessions.target),
      label: session.label,
      reason,
    });
    return response;
  };

  const warned =
    (response: Response) =>
    (error: unknown): Response => {
      options.events.emit('warning', {
        code: 'session-not-kept',
        what: `A session could not be stored: ${messageOf(error)}`,
        next: 'Check the store. This process continues, but a later one may find an older state.',
      });
      return response;
    };

  const learnCosts = ({ connection }: Call, response: Response): Response => {
    const tools = 'result' in response ? response.result['tools'] : undefined;
    if (!Array.isArray(tools)) return response;
    const names = costly.get(connection) ?? new Set();
    let forgotten = 0;
    for (const tool of tools as unknown[]) {
      if (!isObject(tool) || typeof tool['name'] !== 'string' || !allocatesResources(tool)) continue;
      const { name } = tool as { readonly name: string };
      if (names.has(name)) continue;
      if (names.size < MAX_COSTLY && name.length <= MAX_TOOL_NAME) names.add(name);
      else forgotten++;
    }
    costly.set(connection, names);
    if (forgotten > 0) {
      options.events.emit('warning', {
        code: 'limit-reached',
        what: `A server lists too many tools that allocate expensive resources: ${forgotten} are not remembered (${redactUrls(targetKey(connection.target))}).`,
        next: `At most ${MAX_COSTLY} tools with names of up to ${MAX_TOOL_NAME} characters are. Delete the sessions in which you call the others.`,
      });
    }
    return response;
  };

  const access = (client: object): ClientSessions => {
    const sessions = byClient.get(client);
    if (!sessions?.isOf(client)) {
      throw new ValiseError('not-connected', 'This client is not connected through this Valise.', {
        next: 'Call valise.connect(client, transport) first.',
      });
    }
    return {
      create: (options) => sessions.create(options),
      named: (label, behaviour) => sessions.named(label, behaviour),
      resume: (id, behaviour) => sessions.resume(id, behaviour),
      recover: (id, behaviour) => sessions.resume(id, behaviour, 'recover'),
      delete: (id) => sessions.deleteById(id),
      list: () => sessions.list(),
      listen: (listener, options) => sessions.streams.open(undefined, listener, options),
    };
  };

  return {
    access: Object.assign(access, {
      kept: async () =>
        (await options.records.list()).map(({ id, label, target, expiresAt, usedAt }) => ({
          id,
          label,
          target,
          ...timesOf(expiresAt),
          usedAt: new Date(usedAt),
        })),
      forget: async (id: string) => {
        const record = (await options.records.list()).find((each) => each.id === id);
        return record !== undefined && options.records.remove(record.target, id);
      },
    }),

    returning: {
      sessionOf: ({ connection, session }) => find(connection, session)?.record,
      waits(connection, { id }, question) {
        const session = find(connection, id);
        if (!session) return;
        session.pending.add(question);
        waiting.set(question, session);
      },
      over(question) {
        waiting.get(question)?.pending.delete(question);
        waiting.delete(question);
      },
      naming(connection, id, answer) {
        const session = find(connection, id);
        if (!session || !('result' in answer)) return answer;
        const { sessions } = connection.server.spelling(connection.codec.era);
        const _meta = { ...answer.result._meta, ...writeSession(sessions, session.sent()) };
        return { ...answer, result: { ...answer.result, _meta } };
      },
      async inside(connection, record, work) {
        const session = find(connection, record.id) ?? (await sessionsAt(connection)[0]?.reenter(record));
        return session ? session.run(work) : work();
      },
    },

    async forget(target) {
      for (const sessions of byTarget.get(target) ?? []) sessions.forget();
      const stored = await options.records.list(target);
      await Promise.all(stored.map(({ id }) => options.records.remove(target, id)));
      return stored.map(({ id }) => id);
    },

    connected(client, connection) {
      const key = targetKey(connection.target);
      const known = byTarget.get(key) ?? [];
      // Clients that are connected at the same time have separate sessions, because they may act for different users.
      const same = known.filter((each) => each.account.name === connection.account.name);
      const left = same.find((each) => each.isOf(client)) ?? same.find((each) => !each.isConnected);
      const sessions = left ?? new ServerSessions(connection, client, options);
      left?.moved(connection, client);
      if (!left && sessions.mayStore) byTarget.set(key, [...known, sessions]);
      byClient.set(client, sessions);
      byConnection.set(connection, sessions);
    },

    async turns(call, next) {
      const run = running.current && sessionOf(call);
      const queue = run?.session.queue;
      return queue ? queue.run(next, [call.signal, run.over.signal]) : next();
    },

    async middleware(call, next) {
      const named = readSession(call.request.params?._meta);
      if (named) mirror(call, named);
      const run = running.current && sessionOf(call);
      if (!run) return call.method === 'tools/list' ? learnCosts(call, await next()) : next();
      const { session } = run;
      for (let isRetry = false; ; isRetry = true) {
        const sent = attach(call, session);
        const response = await next();
        if (call.method === 'tools/list') learnCosts(call, response);
        const loss = lossIn(response, sent);
        if (!loss) return settle(session, sent, response);
        // A new session may replace this one. The call is retried there if it has not begun.
        const isRenewed = session.recreates && !isRetry && (await session.sessions.renew(session, sent.id));
        if (!isRenewed) return session.sessions.gone(session, sent.id).then(() => response, warned(response));
        if (loss.begun ?? call.hasBegun) return response;
      }
    },

    part: {
      announce: () => ({ sessions: true }),

      opening(connection) {
        const { transport } = connection;
        const close = transport.close.bind(transport);
        transport.close = async () => {
          await byConnection.get(connection)?.release(connection);
          await close();
        };
      },

      notified(notification, connection) {
        const position = readNotificationTag(notification);
        const isWelcome = isListening(notification);
        if (isWelcome || position.sessionId !== undefined || position.cursor !== undefined)
          byConnection.get(connection)?.streams.hear(notification, position);
        return isWelcome;
      },

      closed(connection) {
        byConnection.get(connection)?.closed(connection);
      },
    },
  };
}

/** Mirrors the session's id in an HTTP header (S-20). Uses our own header name if the transport has a session of its own. */
function mirror(call: Call, session: SessionReading): void {
  const { spelling, connection } = call;
  if (!isSession(session) || connection.target.kind !== 'http') return;
  const isTaken = connection.transport.sessionId !== undefined;
  call.addHints({ headers: { [sessionHeader(spelling.sessions, isTaken)]: session.sessionId } });
}
