import { setTimeout as sleep } from 'node:timers/promises';
import {
  isProblem,
  type Notification,
  type Response,
  readSession,
  type SessionMeta,
  sessionConflict,
  sessionMethod,
  sessionNotFound,
  sessionRequired,
  tagNotification,
  withOutcome,
  writeSession,
} from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import type { Exchange, Reply, ServerLink, ServerMiddleware } from '../exchange.ts';
import type { Endings } from './endings.ts';
import { type Gates, isOperation } from './gate.ts';
import { Handle } from './handle.ts';
import { headerDisagrees } from './header.ts';
import { type Held, isRefusal, type Keeping, metaOf, type Refusal, type Requester } from './held.ts';
import type { ImplicitSessions } from './implicit.ts';
import type { Implicit } from './implicit-local.ts';
import type { Admit } from './listen/admission.ts';
import type { Listeners } from './listen/listeners.ts';
import type { Notifier } from './listen/notifier.ts';
import type { sessionMethods } from './methods.ts';
import type { SessionsSettings } from './options.ts';
import { type Failed, invalid, toldTo } from './reply.ts';
import { requesterOf } from './requester.ts';
import { SessionChanged, unfound, type Work, works } from './work.ts';

/** Options of {@link createSessionRequests}. */
export interface SessionRequestsOptions {
  readonly settings: SessionsSettings;
  readonly keeping: Keeping;
  readonly endings: Endings;
  readonly implicit: ImplicitSessions;
  readonly gates: Gates;
  readonly answerMethod: ReturnType<typeof sessionMethods>;
  readonly listeners: Listeners;
  readonly admit: Admit;
  readonly notifier: Notifier;
  /** Reports why a session was refused. */
  readonly refuse: (id: string, reason: string) => void;
  readonly failed: Failed;
  readonly warnOnce: ServerContext['warnOnce'];
}

/** Handles requests in relation to sessions. */
export interface SessionRequests {
  /** Proves the session of each request, and answers the session methods. */
  readonly middleware: ServerMiddleware;
  /** Whether a request is answered here although the server has no handler for it. */
  answers(exchange: Exchange): boolean;
  /** Returns a notification of the server as the client gets it, or undefined to drop it. */
  notifying(
    notification: Notification,
    exchange: Exchange | undefined,
    link: ServerLink,
  ): Notification | undefined;
  /** Lets what carries the client's state stand in, for a handler that asks for a session only now. */
  standIn(exchange: Exchange): Work | undefined;
}

type Answer = Reply | undefined;

const MAX_RERUNS = 100;

const SUBSCRIBING = new Set(['resources/subscribe', 'resources/unsubscribe']);

/** Creates the middleware that proves the session of each request and answers session methods before any handler runs. */
export function createSessionRequests(options: SessionRequestsOptions): SessionRequests {
  const { settings, keeping, endings, implicit, gates, notifier, listeners, admit, refuse, failed } = options;

  /** Turns an error into a reply: a failing store must not leave a request without a response. */
  const broken = (error: unknown): Reply => ({ error: failed(error) });

  const handle = (exchange: Exchange, held: Held, isImplicit: boolean): Handle =>
    new Handle(held, {
      implicit: isImplicit,
      answered: () => exchange.isAnswered,
      notify: (method, params) => notifier.tell(held.id, method, params),
    });

  const enter = (
    exchange: Exchange,
    requester: Requester,
    session: SessionMeta,
    held: Held | Refusal,
  ): Answer | Promise<Answer> => {
    if (isRefusal(held)) {
      refuse(session.sessionId, held.refused);
      return {
        error: sessionNotFound(exchange.spelling.sessions, session.sessionId, { begun: hasBegun(exchange) }),
      };
    }
    return admitted(exchange, held.id, () => entered(exchange, requester, held));
  };

  const entered = (exchange: Exchange, requester: Requester, held: Held): Answer | Promise<Answer> => {
    if (!exchange.isHandled) {
      // The server has no handler for subscriptions, so they are handled here.
      if (typeof exchange.request.params?.['uri'] !== 'string')
        return invalid({ problem: 'wrong-type', where: 'params.uri' });
      const meta = toldTo(exchange, metaOf(held.id, held.expires, held.seq));
      const _meta = writeSession(exchange.spelling.sessions, meta);
      return notifier.subscribe(exchange, held.id).then(() => ({ result: { _meta } }), broken);
    }
    works.set(exchange, {
      held,
      handle: handle(exchange, held, false),
      commit: () => keeping.commit(held, requester),
      end: () => endings.end(held.id, 'revoked'),
    });
    return undefined;
  };

  /** Continues with a request, unless it is a subscription that the author refuses. */
  const admitted = (
    exchange: Exchange,
    session: string | undefined,
    goOn: () => Answer | Promise<Answer>,
  ): Answer | Promise<Answer> => {
    const uri = exchange.method === 'resources/subscribe' ? exchange.request.params?.['uri'] : undefined;
    if (typeof uri !== 'string') return goOn();
    return admit(exchange, session, [uri]).then((refused) => refused ?? goOn(), broken);
  };

  const enterImplicit = (exchange: Exchange, stands: Implicit | undefined, required: boolean): Answer => {
    if (!stands) return required ? { error: sessionRequired(exchange.spelling.sessions) } : undefined;
    const { held, commit, end } = stands;
    works.set(exchange, { held, handle: handle(exchange, held, true), commit, end });
    return undefined;
  };

  /** Whether what carries the client's state may stand in. Clients that support sessions are told to create one instead. */
  const mayStandIn = ({ peer, carrier, method }: Exchange): boolean =>
    settings.implicit &&
    !peer.families.sessions &&
    (carrier.thread !== null || carrier.principal !== null) &&
    isOperation(method);

  const without = (exchange: Exchange): Answer | Promise<Answer> => {
    const required = gates.requires(exchange);
    if (!mayStandIn(exchange))
      return required ? { error: sessionRequired(exchange.spelling.sessions) } : undefined;
    const missing = (error: unknown) => (required ? broken(error) : void unfound.set(exchange, { error }));
    try {
      const stands = implicit.open(exchange, requesterOf(exchange), { required });
      if (!(stands instanceof Promise)) return enterImplicit(exchange, stands, required);
      return stands.then((late) => enterImplicit(exchange, late, required), missing);
    } catch (error) {
      return missing(error);
    }
  };

  const within = (exchange: Exchange, session: SessionMeta): Answer | Promise<Answer> => {
    if (headerDisagrees(exchange, session.sessionId))
      return invalid({ problem: 'conflict', where: 'the HTTP header of the session' });
    const requester = requesterOf(exchange);
    try {
      const opened = keeping.open(session, requester);
      if (!(opened instanceof Promise)) return enter(exchange, requester, session, opened);
      return opened.then((late) => enter(exchange, requester, session, late), broken);
    } catch (error) {
      return broken(error);
    }
  };

  const enterBy = (exchange: Exchange): Answer | Promise<Answer> => {
    // The handler may be running again, on current data.
    works.set(exchange, undefined);
    unfound.set(exchange, undefined);
    const session = readSession(exchange.request.params?._meta);
    if (session === undefined)
      return exchange.method === 'resources/subscribe'
        ? admitted(exchange, undefined, () => without(exchange))
        : without(exchange);
    if (session === null) return invalid({ problem: 'bad-value', where: 'params._meta' });
    return isProblem(session) ? invalid(session) : within(exchange, session);
  };

  /** Records a subscription that the server's own handler has answered. */
  const noteSubscription = async (exchange: Exchange, response: Response): Promise<Response> => {
    const work = works.get(exchange);
    const scope = work && !work.handle.implicit ? work.held.id : '';
    try {
      await notifier.subscribe(exchange, scope);
      return response;
    } catch (error) {
      return exchange.respond(broken(error));
    }
  };

  /** Waits before a rerun. Random delays spread out many concurrent writers. */
  const pause = async (tries: number): Promise<void> => {
    if (tries > 3) await sleep(Math.random() * Math.min(tries, 20));
  };

  return {
    async middleware(exchange, next) {
      const method = sessionMethod(exchange.method);
      if (method) {
        const { verb } = method;
        const requester = requesterOf(exchange);
        return exchange.respond(
          await (verb === 'listen'
            ? listeners.receive(exchange, requester)
            : options.answerMethod(verb, exchange, requester)),
        );
      }
      for (let tries = 1; ; tries++) {
        const entering = enterBy(exchange);
        const answer = entering instanceof Promise ? await entering : entering;
        if (answer) return exchange.respond(answer);
        try {
          const response = await next();
          const isSubscribed = SUBSCRIBING.has(exchange.method) && 'result' in response && !exchange.round;
          return isSubscribed ? noteSubscription(exchange, response) : response;
        } catch (error) {
          if (!(error instanceof SessionChanged)) throw error;
          if (!settings.rerun || tries > MAX_RERUNS)
            return exchange.respond({
              error: withOutcome(sessionConflict(exchange.spelling.sessions, error.id), 'not-done'),
            });
          await pause(tries);
        }
      }
    },

    answers: ({ method, request }) =>
      sessionMethod(method) !== undefined ||
      (SUBSCRIBING.has(method) && readSession(request.params?._meta) !== undefined),

    notifying(notification, exchange, link) {
      const work = exchange && works.get(exchange);
      if (work && !work.handle.implicit)
        return tagNotification(exchange.spelling.sessions, notification, { sessionId: work.held.id });
      return notifier.updated(notification, link);
    },

    standIn(exchange) {
      if (!mayStandIn(exchange) || exchange.isAnswered) return undefined;
      let stands: Implicit | undefined;
      try {
        stands = implicit.openNow(exchange, requesterOf(exchange));
      } catch (error) {
        // The handler receives the error; the author's listeners are notified here.
        failed(error);
        throw error;
      }
      if (!stands) {
        const { what, next } = implicit.missing(exchange);
        options.warnOnce(`no-stand-in ${next}`, { what, next });
      }
      enterImplicit(exchange, stands, false);
      return works.get(exchange);
    },
  };
}

/** Whether a handler has already worked on the call: it continues a round, or starts over. */
function hasBegun({ runs, top, edgeContext, request: { params } }: Exchange): boolean {
  const answers = params?.['requestState'] ?? top?.dependent_responses ?? edgeContext?.answered;
  return runs > 0 || answers !== undefined;
}
