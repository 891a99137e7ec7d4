import { messageOf, ValiseError } from '../../errors.ts';
import { isObject } from '../../json.ts';
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
import type { Call } from '../call.ts';
import type { Connection } from '../connection.ts';
import type { ClientPart } from '../part.ts';
import { targetKey } from '../target.ts';
import { Home, type HomeOptions, timesOf } from './home.ts';
import { type Returning, returningTo } from './returning.ts';
import { currentRun, type HeldSession, type Running } from './session.ts';
import { currentStream } from './stream.ts';
import type { ClientSessions, SessionsAccess } from './types.ts';

/** Family S on the client's side. */
export interface SessionsFamily {
  readonly part: ClientPart;
  readonly access: SessionsAccess;
  /** For calls that wait for answers. */
  readonly returning: Returning;
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
  const homes = new Map<string, Home>();
  const ofConnection = new WeakMap<Connection, Home>();
  const ofClient = new WeakMap<object, Home>();
  const costly = new WeakMap<Connection, Set<string>>();

  const attach = (call: Call, { session, isRetry }: Running): void => {
    const { id } = session;
    const { era } = call;
    const order = session.nextCall();
    call.session = id;
    call.addMeta(writeSession(era, session.sent()));
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
      return isGone ? lost(call, session, sent, response) : response;
    }
    const reading = readSession(response.result._meta);
    if (reading === undefined) return response;
    if (reading === null) return session.home.gone(session, sent.id).then(() => response);
    if (isProblem(reading)) return refused(session, `${reading.problem} at ${reading.where}`, response);
    if (!isSession(reading)) return response;
    if (reading.sessionId !== sent.id) return refused(session, 'the answer names another session', response);
    if (session.id !== sent.id || !session.update(reading, sent.order) || !session.keeps) return response;
    return session.home.save(session).then(() => response, warned(response));
  };

  /** The call was not carried out, so it can be made once more where another session may take the place of this one. */
  const lost = async (
    { connection, request }: Call,
    session: HeldSession,
    { id, isRetry }: Sent,
    response: Response,
  ): Promise<Response | undefined> => {
    const renewed = session.recreates && !isRetry && (await session.home.renew(session, id));
    if (!renewed) {
      await session.home.gone(session, id);
      return response;
    }
    await session.retry(() => connection.link.transport.send(request));
    return undefined;
  };

  const refused = (session: HeldSession, reason: string, response: Response): Response => {
    options.events.emit('sessionRefused', { server: session.home.target, label: session.label, reason });
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
      for (const tool of tools as unknown[]) {
        if (isObject(tool) && typeof tool['name'] === 'string' && allocatesResources(tool))
          names.add(tool['name']);
      }
      costly.set(call.connection, names);
      return response;
    });

  const homeOf = (client: object): Home => {
    const home = ofClient.get(client);
    if (home) return home;
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

    returning: returningTo((connection) => ofConnection.get(connection)),

    connected(client, connection) {
      const key = connection.target.kind === 'unknown' ? undefined : targetKey(connection.target);
      const known = key === undefined ? undefined : homes.get(key);
      const home = known ?? new Home(connection, client, options);
      known?.moved(connection, client);
      if (key !== undefined) homes.set(key, home);
      ofClient.set(client, home);
      ofConnection.set(connection, home);
    },

    part: {
      announce: () => ({ sessions: true }),

      opening(connection) {
        const { transport } = connection.link;
        const close = transport.close.bind(transport);
        transport.close = async () => {
          await ofConnection.get(connection)?.release();
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
        if (session.home !== ofConnection.get(call.connection)) return undefined;
        const send = (): void => {
          session.home.check(session);
          attach(call, run);
        };
        if (!session.queue) return settled(send);
        run.calls.add(call);
        call.undelivered = () => session.queue?.leave(call);
        const turn = session.queue.enter(call);
        return (turn ?? Promise.resolve()).then(send).catch((error: unknown) => {
          session.queue?.leave(call);
          throw error;
        });
      },

      notifying(notification, connection) {
        if (notification.method !== 'notifications/cancelled') return false;
        const id = notification.params?.['requestId'];
        for (const { queue } of ofConnection.get(connection)?.live ?? []) {
          for (const call of queue?.waiting ?? []) if (call.request.id === id) queue?.leave(call);
        }
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
        const home = ofConnection.get(connection);
        for (const { queue } of home?.live ?? [])
          for (const call of [...(queue?.waiting ?? [])]) queue?.leave(call);
        home?.closed(connection);
      },
    },
  };
}

/** The id of the session stands in an HTTP header too; the older one belongs to the transport's own session, if it has one. */
function mirror(call: Call, session: SessionReading): void {
  const { era, connection } = call;
  if (!isSession(session) || connection.target.kind !== 'http') return;
  if (era === 'legacy' && connection.link.transport.sessionId !== undefined) return;
  call.addErrand({ headers: { [NAMES[era].header.session]: session.sessionId } });
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
