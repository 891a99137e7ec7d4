import { messageOf, ValiseError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import { runAt } from '../../link/course.ts';
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
import type { Connection } from '../connection.ts';
import type { ClientPart } from '../part.ts';
import { targetKey } from '../target.ts';
import { isTooLarge } from './calls.ts';
import { sessionsLacking } from './errors.ts';
import { Home, type HomeOptions, timesOf } from './home.ts';
import { type Returning, returningTo } from './returning.ts';
import { currentRun, type HeldSession, type Running } from './session.ts';
import { currentStream } from './stream.ts';
import type { ClientSessions, SessionsAccess } from './types.ts';

/** Of how many tools of a server it is remembered that their sessions hold something expensive. */
const MAX_COSTLY = 1000;
const MAX_TOOL_NAME = 1024;

/** Family S on the client's side. */
export interface SessionsFamily {
  readonly part: ClientPart;
  readonly access: SessionsAccess;
  /** For calls that wait for answers. */
  readonly returning: Returning;
  /** The user has signed out of a server: its kept sessions, of every account, are gone. Their ids come back. */
  forget(target: string): Promise<readonly string[]>;
  /** A client is connected: from now on its sessions can be asked for. */
  connected(client: object, connection: Connection): void;
}

/** What a call went out with. */
interface Sent {
  readonly id: string;
  readonly order: number;
  readonly isRetry: boolean;
}

/** Makes family S. */
export function createSessions(options: HomeOptions): SessionsFamily {
  const homes = new Map<string, readonly Home[]>();
  const ofConnection = new WeakMap<Connection, Home>();
  const ofClient = new WeakMap<object, Home>();
  const costly = new WeakMap<Connection, Set<string>>();

  /** The homes at the server of a connection, its own first. */
  const homesAt = (connection: Connection): readonly Home[] => {
    const own = ofConnection.get(connection);
    const others = (own?.keeps && homes.get(own.target)) || [];
    const { name } = connection.account;
    return own ? [own, ...others.filter((each) => each !== own && each.account.name === name)] : [];
  };

  const attach = (call: Call, { session, isRetry }: Running): void => {
    const { id } = session;
    const order = session.nextCall();
    call.session = id;
    call.addMeta(writeSession(call.spelling.sessions, session.sent()));
    mirror(call, { sessionId: id });
    if (isCostly(call)) session.allocates = true;
    call.whenAnswered((response) => settle(call, session, { id, order, isRetry }, response));
  };

  const isCostly = ({ connection, method, request }: Call): boolean =>
    method === 'tools/call' && (costly.get(connection)?.has(String(request.params?.['name'])) ?? false);

  const settle = (
    call: Call,
    session: HeldSession,
    sent: Sent,
    response: Response,
  ): Response | Promise<Response | undefined> => {
    session.queue?.leave(call);
    if (!('result' in response)) {
      const reading = readSessionError(response.error);
      const isGone = reading?.kind === 'not-found' && (reading.sessionId ?? sent.id) === sent.id;
      return isGone ? lost(call, session, sent, response, reading.begun) : response;
    }
    const reading = readSession(response.result._meta);
    if (reading === undefined) return response;
    // What is taken leaves the result: hosts show results to models.
    const passed = { ...response, result: withoutSession(response.result) };
    if (reading === null) return session.home.gone(session, sent.id).then(() => passed, warned(passed));
    if (isProblem(reading)) return refused(session, `${reading.problem} at ${reading.where}`, response);
    if (!isSession(reading)) return response;
    if (isTooLarge(reading)) return refused(session, 'its state is too large', response);
    if (reading.sessionId !== sent.id) return refused(session, 'the answer names another session', response);
    if (session.id !== sent.id || !session.update(reading, sent.order) || !session.keeps) return passed;
    return session.home.save(session).then(() => passed, warned(passed));
  };

  /** Another session may take the place of this one; the call is made once more there where it has not begun. */
  const lost = async (
    call: Call,
    session: HeldSession,
    { id, isRetry }: Sent,
    response: Response,
    begun = call.hasBegun,
  ): Promise<Response | undefined> => {
    const { connection, request, place } = call;
    let renewed: boolean;
    connection.calls.prepare(call);
    try {
      renewed = session.recreates && !isRetry && (await session.home.renew(session, id));
    } finally {
      connection.calls.prepared(call);
    }
    if (!renewed) return session.home.gone(session, id).then(() => response, warned(response));
    if (begun) return response;
    if (call.isGivenUp) return undefined;
    await runAt(place, () => session.retry(() => connection.link.transport.send(request, call.options)));
    return undefined;
  };

  const refused = (session: HeldSession, reason: string, response: Response): Response => {
    options.events.emit('sessionRefused', {
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
        what: `A session could not be stored: ${messageOf(error)}`,
        next: 'Check the store; this process goes on, and a later one may find an older state.',
      });
      return response;
    };

  const learnCosts = (call: Call): void =>
    call.whenAnswered((response) => {
      const tools = 'result' in response ? response.result['tools'] : undefined;
      if (!Array.isArray(tools)) return response;
      const names = costly.get(call.connection) ?? new Set();
      let forgotten = 0;
      for (const tool of tools as unknown[]) {
        if (!isObject(tool) || typeof tool['name'] !== 'string' || !allocatesResources(tool)) continue;
        const { name } = tool as { readonly name: string };
        if (names.has(name)) continue;
        if (names.size < MAX_COSTLY && name.length <= MAX_TOOL_NAME) names.add(name);
        else forgotten++;
      }
      costly.set(call.connection, names);
      if (forgotten > 0) {
        options.events.emit('warning', {
          what: `A server lists too many tools whose sessions hold something expensive: ${forgotten} are not remembered (${redactUrls(targetKey(call.connection.target))}).`,
          next: `Up to ${MAX_COSTLY} are, with names of up to ${MAX_TOOL_NAME} characters. End the sessions in which the others are called.`,
        });
      }
      return response;
    });

  /** Lets the calls of a connection that nobody waits for any more out of the queues of their sessions. */
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
      // Clients that are connected at the same time go apart: they may speak for different users.
      const same = known.filter((each) => each.account.name === connection.account.name);
      const left = same.find((each) => each.isOf(client)) ?? same.find((each) => !each.isOpen);
      const home = left ?? new Home(connection, client, options);
      left?.moved(connection, client);
      if (!left && home.keeps) homes.set(key, [...known, home]);
      ofClient.set(client, home);
      ofConnection.set(connection, home);
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

      outbound(call) {
        if (call.method === 'tools/list') learnCosts(call);
        mirror(call, readSession(call.request.params?._meta));
        const verb = sessionMethod(call.method)?.verb;
        if (verb === 'listen') currentStream()?.sending(call);
        const run = currentRun();
        if (!run || INTRODUCTIONS.has(call.method) || verb) return undefined;
        const { session } = run;
        // What runs in a session may also talk to other servers; the session is not for them.
        if (!homesAt(call.connection).includes(session.home)) return undefined;
        const send = (): void => {
          session.home.check(session, call.hasBegun);
          if (call.connection.server.lacksSessions) throw sessionsLacking(session.label);
          attach(call, run);
        };
        if (!session.queue) return settled(send);
        run.calls.add(call);
        call.undelivered = () => session.queue?.leave(call);
        call.signal?.addEventListener('abort', () => call.connection.leave(call), { once: true });
        const turn = session.queue.enter(call, call.instead);
        return (turn ?? Promise.resolve()).then(send).catch((error: unknown) => {
          session.queue?.leave(call);
          throw error;
        });
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

/** Puts the session's id into an HTTP header too (S-20): into our own if the transport has a session of that name itself. */
function mirror(call: Call, session: SessionReading): void {
  const { spelling, connection } = call;
  if (!isSession(session) || connection.target.kind !== 'http') return;
  const column = connection.link.transport.sessionId === undefined ? spelling.sessions : 'modern';
  call.addErrand({ headers: { [NAMES[column].header.session]: session.sessionId } });
}

/** An error as the outcome of sending: the SDKs hand it to whoever made the call. */
function settled(send: () => void): Promise<void> | undefined {
  try {
    send();
    return undefined;
  } catch (error) {
    return Promise.reject(error);
  }
}
