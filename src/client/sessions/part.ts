import { messageOf, ValiseError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import { redactUrls } from '../../redact-urls.ts';
import {
  allocatesResources,
  INTRODUCTIONS,
  isListening,
  isProblem,
  isSession,
  NAMES,
  type Response,
  readNotificationTag,
  readSession,
  readSessionError,
  type SessionReading,
  sessionMethod,
  writeSession,
} from '../../wire/index.ts';
import { withoutSession } from '../../wire/session.ts';
import type { Call } from '../call.ts';
import type { ClientMiddleware, Connection } from '../connection.ts';
import type { ClientPart } from '../part.ts';
import { targetKey } from '../target.ts';
import { isTooLarge } from './calls.ts';
import { sessionsLacking } from './errors.ts';
import { Home, type HomeOptions, timesOf } from './home.ts';
import { type Returning, returningTo } from './returning.ts';
import { currentRun, type HeldSession, type Running } from './session.ts';
import { currentStream } from './stream.ts';
import type { ClientSessions, SessionsAccess } from './types.ts';

/** The maximum number of tools per server that are remembered as allocating expensive resources. */
const MAX_COSTLY = 1000;
const MAX_TOOL_NAME = 1024;

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
export function createSessions(options: HomeOptions): SessionsFamily {
  const homes = new Map<string, readonly Home[]>();
  const ofConnection = new WeakMap<Connection, Home>();
  const ofClient = new WeakMap<object, Home>();
  const costly = new WeakMap<Connection, Set<string>>();

  /** Returns the homes at the server of a connection, its own first. */
  const homesAt = (connection: Connection): readonly Home[] => {
    const own = ofConnection.get(connection);
    const others = (own?.keeps && homes.get(own.target)) || [];
    const { name } = connection.account;
    return own ? [own, ...others.filter((each) => each !== own && each.account.name === name)] : [];
  };

  const attach = (call: Call, session: HeldSession): Sent => {
    session.home.check(session, call.hasBegun);
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
    const run = currentRun();
    if (!run || INTRODUCTIONS.has(method) || sessionMethod(method)) return undefined;
    return homesAt(connection).includes(run.session.home) ? run : undefined;
  };

  const isCostly = ({ connection, method, request }: Call): boolean =>
    method === 'tools/call' && (costly.get(connection)?.has(String(request.params?.['name'])) ?? false);

  /** Applies the session metadata of a response. */
  const settle = async (session: HeldSession, sent: Sent, response: Response): Promise<Response> => {
    if (!('result' in response)) return response;
    const reading = readSession(response.result._meta);
    if (reading === undefined) return response;
    // Applied metadata is removed from the result, because hosts show results to models.
    const passed = { ...response, result: withoutSession(response.result) };
    if (reading === null) return session.home.gone(session, sent.id).then(() => passed, warned(passed));
    if (isProblem(reading)) return refused(session, `${reading.problem} at ${reading.where}`, response);
    if (!isSession(reading)) return response;
    if (isTooLarge(reading)) return refused(session, 'its state is too large', response);
    if (reading.sessionId !== sent.id) return refused(session, 'the answer names another session', response);
    if (session.id !== sent.id || !session.update(reading, sent.order) || !session.keeps) return passed;
    return session.home.save(session).then(() => passed, warned(passed));
  };

  /** Returns a value if the server no longer has the session of a call. It says whether a handler had begun. */
  const lossIn = (response: Response, { id }: Sent): { readonly begun?: boolean } | undefined => {
    const reading = 'error' in response ? readSessionError(response.error) : undefined;
    return reading?.kind === 'not-found' && (reading.sessionId ?? id) === id ? reading : undefined;
  };

  const refused = (session: HeldSession, reason: string, response: Response): Response => {
    options.events.emit('session-refused', {
      server: redactUrls(session.home.target),
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
        next: 'Check the store; this process goes on, and a later one may find an older state.',
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
        what: `A server lists too many tools whose sessions hold something expensive: ${forgotten} are not remembered (${redactUrls(targetKey(connection.target))}).`,
        next: `Up to ${MAX_COSTLY} are, with names of up to ${MAX_TOOL_NAME} characters. End the sessions in which the others are called.`,
      });
    }
    return response;
  };

  /** Removes the calls of a connection that are over from the queues of their sessions. */
  const leaveQueues = (connection: Connection, isOver: (call: Call) => boolean): void => {
    for (const { queue } of homesAt(connection).flatMap(({ live }) => [...live]))
      for (const call of [...(queue?.waiting ?? [])])
        if (call.connection === connection && isOver(call)) queue?.leave(call);
  };

  const homeOf = (client: object): Home => {
    const home = ofClient.get(client);
    if (home?.isOf(client)) return home;
    throw new ValiseError('not-connected', 'This client is not connected through this Valise.', {
      next: 'Call valise.connect(client, transport) first.',
    });
  };

  const access = (client: object): ClientSessions => {
    const home = homeOf(client);
    return {
      create: (given) => home.create(given),
      named: (label, behaviour) => home.named(label, behaviour),
      resume: (id, behaviour) => home.resume(id, behaviour),
      recover: (id, behaviour) => home.resume(id, behaviour, 'recover'),
      delete: (id) => home.deleteById(id),
      list: () => home.list(),
      listen: (listener, given) => home.streams.open(undefined, listener, given),
    };
  };

  return {
    access: Object.assign(access, {
      kept: async () =>
        (await options.kept.list()).map(({ id, label, target, expiresAt, usedAt }) => ({
          id,
          label,
          target,
          ...timesOf(expiresAt),
          usedAt: new Date(usedAt),
        })),
      forget: async (id: string) => {
        const kept = (await options.kept.list()).find((each) => each.id === id);
        return kept !== undefined && options.kept.remove(kept.target, id);
      },
    }),

    returning: returningTo(homesAt),

    async forget(target) {
      for (const home of homes.get(target) ?? []) home.forget();
      const kept = await options.kept.list(target);
      await Promise.all(kept.map(({ id }) => options.kept.remove(target, id)));
      return kept.map(({ id }) => id);
    },

    connected(client, connection) {
      const key = targetKey(connection.target);
      const known = homes.get(key) ?? [];
      // Clients that are connected at the same time have separate homes, because they may act for different users.
      const same = known.filter((each) => each.account.name === connection.account.name);
      const left = same.find((each) => each.isOf(client)) ?? same.find((each) => !each.isOpen);
      const home = left ?? new Home(connection, client, options);
      left?.moved(connection, client);
      if (!left && home.keeps) homes.set(key, [...known, home]);
      ofClient.set(client, home);
      ofConnection.set(connection, home);
    },

    async turns(call, next) {
      const run = sessionOf(call);
      const queue = run?.session.queue;
      if (!queue) return next();
      run.calls.add(call);
      call.signal?.addEventListener('abort', () => call.leave(), { once: true });
      try {
        await queue.enter(call);
        return await next();
      } finally {
        queue.leave(call);
      }
    },

    async middleware(call, next) {
      mirror(call, readSession(call.request.params?._meta));
      if (sessionMethod(call.method)?.verb === 'listen') currentStream()?.sending(call);
      const run = sessionOf(call);
      if (!run) return call.method === 'tools/list' ? learnCosts(call, await next()) : next();
      const { session } = run;
      for (let isRetry = false; ; isRetry = true) {
        const sent = attach(call, session);
        const response = await next();
        if (call.method === 'tools/list') learnCosts(call, response);
        const loss = lossIn(response, sent);
        if (!loss) return settle(session, sent, response);
        // A new session may replace this one. The call is retried there if it has not begun.
        const isRenewed = session.recreates && !isRetry && (await session.home.renew(session, sent.id));
        if (!isRenewed) return session.home.gone(session, sent.id).then(() => response, warned(response));
        if (loss.begun ?? call.hasBegun) return response;
      }
    },

    part: {
      announce: () => ({ sessions: true }),

      opening(connection) {
        const { transport } = connection.link;
        const close = transport.close.bind(transport);
        transport.close = async () => {
          await ofConnection.get(connection)?.release(connection);
          await close();
        };
      },

      notifying(notification, connection) {
        if (notification.method !== 'notifications/cancelled') return false;
        const id = notification.params?.['requestId'];
        leaveQueues(connection, (call) => call.request.id === id);
        return false;
      },

      notified(notification, connection) {
        const position = readNotificationTag(notification);
        const isWelcome = isListening(notification);
        if (isWelcome || position.sessionId !== undefined || position.cursor !== undefined)
          ofConnection.get(connection)?.streams.hear(notification, position);
        return isWelcome;
      },

      closed(connection) {
        leaveQueues(connection, () => true);
        ofConnection.get(connection)?.closed(connection);
      },
    },
  };
}

/** Mirrors the session's id in an HTTP header (S-20). Uses our own header name if the transport has a session of its own. */
function mirror(call: Call, session: SessionReading): void {
  const { spelling, connection } = call;
  if (!isSession(session) || connection.target.kind !== 'http') return;
  const column = connection.link.transport.sessionId === undefined ? spelling.sessions : 'modern';
  call.addHints({ headers: { [NAMES[column].header.session]: session.sessionId } });
}
