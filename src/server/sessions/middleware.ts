import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from '../../core/errors.ts';
import {
  isProblem,
  type Notification,
  type Response,
  readSession,
  type SessionReading,
  sessionConflict,
  sessionHeaders,
  sessionMethod,
  sessionNotFound,
  sessionRequired,
  tagNotification,
  withOutcome,
  writeSession,
} from '../../wire/index.ts';
import { headerOf } from '../caller.ts';
import type { ServerContext } from '../context.ts';
import { addMeta, type Exchange, type Reply, type ServerLink, type ServerMiddleware } from '../exchange.ts';
import { partlyDone } from '../fault.ts';
import { inputs, isBehind } from '../flows/input.ts';
import {
  type Committed,
  isRefusal,
  metaFor,
  metaOf,
  type OpenSession,
  requesterOf,
  type SessionBackend,
} from './backend.ts';
import type { DefaultSessions } from './default-sessions.ts';
import { type Failed, invalid } from './errors.ts';
import type { SessionExpiry } from './expiry.ts';
import type { Listeners } from './listen/listeners.ts';
import type { Notifier } from './listen/notifier.ts';
import type { SessionMethods } from './methods.ts';
import type { SessionsSettings } from './options.ts';
import {
  type ActiveSession,
  type RequestSession,
  requestSessions,
  SessionHandle,
  sessionOf,
} from './request-session.ts';
import { isOperation, type RequiredSessions } from './required.ts';

/** Options of {@link SessionMiddleware}. */
export interface SessionMiddlewareOptions {
  readonly settings: SessionsSettings;
  readonly backend: SessionBackend;
  readonly expiry: SessionExpiry;
  readonly defaults: DefaultSessions;
  readonly required: RequiredSessions;
  readonly methods: SessionMethods;
  readonly listeners: Listeners;
  readonly notifier: Notifier;
  /** Reports why a session was refused. */
  readonly refuse: (id: string, reason: string) => void;
  readonly failed: Failed;
  readonly warnOnce: ServerContext['warnOnce'];
}

const MAX_RERUNS = 100;

const SUBSCRIBING = new Set(['resources/subscribe', 'resources/unsubscribe']);

const BEHIND = {
  what: 'A flow changed its sealed session as it was before the flow asked, because the answer did not include the current state. If other calls changed the session in between, their changes or those of the flow are lost.',
  next: "Use sessions: { mode: 'stored' } if flows change the sessions of such clients.",
};

/** What sessions do with each request. */
export class SessionMiddleware {
  readonly #options: SessionMiddlewareOptions;

  constructor(options: SessionMiddlewareOptions) {
    this.#options = options;
  }

  /**
   * Authenticates the session of a request, and answers the session methods. If another request has changed the session
   * meanwhile, it runs the rest again on the current state.
   *
   * It is outside of everything that trusts what a request says.
   */
  readonly authenticate: ServerMiddleware = async (exchange, next) => {
    const method = sessionMethod(exchange.method);
    if (method) {
      const { methods, listeners } = this.#options;
      const requester = requesterOf(exchange);
      return exchange.respond(
        await (method.verb === 'listen'
          ? listeners.receive(exchange, requester)
          : methods.answer(method.verb, exchange, requester)),
      );
    }
    const named = readSession(exchange.request.params?._meta);
    // Nothing is awaited before `next()` here, since the HTTP status of what the SDK refuses at once depends on that.
    if (named === undefined && !this.#mayMatter(exchange))
      return SUBSCRIBING.has(exchange.method) ? this.#recordSubscription(exchange, await next()) : next();
    for (let tries = 1; ; tries++) {
      requestSessions.set(exchange, undefined);
      const refused = await this.#enter(exchange, named);
      if (refused) return exchange.respond(refused);
      const response = await next();
      const isOutdated = sessionOf(exchange)?.isOutdated === true;
      if (!isOutdated || !this.#options.settings.rerun || tries > MAX_RERUNS)
        return SUBSCRIBING.has(exchange.method) ? this.#recordSubscription(exchange, response) : response;
      // Random delays spread out many concurrent writers.
      if (tries > 3) await sleep(Math.random() * Math.min(tries, 20));
    }
  };

  /**
   * Saves the session's changes, and adds the session to the response.
   *
   * If the handler read outdated state it responds with a conflict, so that nothing outside of it keeps what the handler did.
   */
  readonly commit: ServerMiddleware = async (exchange, next) => {
    const response = await next();
    const active = sessionOf(exchange);
    return active && !exchange.round ? this.#commit(exchange, active, response) : response;
  };

  /** Whether a request is answered here although the server has no handler for it. */
  answers({ method, request }: Exchange): boolean {
    return (
      sessionMethod(method) !== undefined ||
      (SUBSCRIBING.has(method) && readSession(request.params?._meta) !== undefined)
    );
  }

  /** Returns a notification of the server as the client gets it, or undefined to drop it. */
  notifying(
    notification: Notification,
    exchange: Exchange | undefined,
    link: ServerLink,
  ): Notification | undefined {
    const active = exchange && sessionOf(exchange);
    if (active && !active.isDefault)
      return tagNotification(exchange.spelling.sessions, notification, { sessionId: active.handle.id });
    return this.#options.notifier.updated(notification, link);
  }

  /** Returns the session of a request for its handler. Begins a default session if the client has none yet. */
  handleFor(exchange: Exchange): SessionHandle | undefined {
    const found = requestSessions.get(exchange);
    if (found && 'session' in found) return found.handle;
    if (found) {
      exchange.note(found.error);
      throw found.error;
    }
    return this.#openDefaultNow(exchange)?.handle;
  }

  /** Whether a request that names no session may get a default one, needs one, or may be refused as a subscription. */
  #mayMatter(exchange: Exchange): boolean {
    return (
      this.#mayUseDefault(exchange) ||
      this.#options.required.includes(exchange) ||
      (exchange.method === 'resources/subscribe' && typeof exchange.request.params?.['uri'] === 'string')
    );
  }

  /** Whether a client may get a default session. Clients that support sessions are told to create one instead. */
  #mayUseDefault({ peer, carrier, method }: Exchange): boolean {
    return (
      this.#options.settings.implicit &&
      !peer.families.sessions &&
      (carrier.thread !== null || carrier.principal !== null) &&
      isOperation(method)
    );
  }

  /** Opens the session of a request. Returns a reply if the request must not reach its handler. */
  async #enter(exchange: Exchange, named: SessionReading): Promise<Reply | undefined> {
    try {
      const isSubscribing = exchange.method === 'resources/subscribe';
      if (named === undefined) {
        const refused = isSubscribing && (await this.#refuseSubscriber(exchange, undefined));
        return refused || (await this.#enterDefault(exchange));
      }
      if (named === null) return invalid({ problem: 'bad-value', where: 'params._meta' });
      if (isProblem(named)) return invalid(named);
      if (headerDisagrees(exchange, named.sessionId))
        return invalid({ problem: 'conflict', where: 'the HTTP header of the session' });
      const { backend, expiry, refuse } = this.#options;
      const requester = requesterOf(exchange);
      const session = await backend.open(named, requester);
      if (isRefusal(session)) {
        refuse(named.sessionId, session.refused);
        const begun = hasBegun(exchange);
        return { error: sessionNotFound(exchange.spelling.sessions, named.sessionId, { begun }) };
      }
      const { id } = session.record;
      const refused = isSubscribing && (await this.#refuseSubscriber(exchange, id));
      if (refused) return refused;
      if (!exchange.isHandled) return await this.#answerSubscription(exchange, session);
      this.#activate(exchange, {
        session,
        isDefault: false,
        commit: () => backend.commit(session, requester),
        end: () => expiry.end(id, 'revoked'),
      });
      return undefined;
    } catch (error) {
      // A failing store must not leave a request without a response.
      return { error: this.#options.failed(error) };
    }
  }

  async #enterDefault(exchange: Exchange): Promise<Reply | undefined> {
    const { defaults, required } = this.#options;
    const isRequired = required.includes(exchange);
    if (this.#mayUseDefault(exchange)) {
      try {
        const active = await defaults.open(exchange, requesterOf(exchange), { isRequired });
        if (active) {
          this.#activate(exchange, active);
          return undefined;
        }
      } catch (error) {
        if (isRequired) throw error;
        requestSessions.set(exchange, { error });
        return undefined;
      }
    }
    return isRequired ? { error: sessionRequired(exchange.spelling.sessions) } : undefined;
  }

  /** Begins a default session for a handler that asks for it only now. */
  #openDefaultNow(exchange: Exchange): RequestSession | undefined {
    if (!this.#mayUseDefault(exchange) || exchange.isAnswered) return undefined;
    const { defaults, failed, warnOnce } = this.#options;
    let active: ActiveSession | undefined;
    try {
      active = defaults.openNow(exchange, requesterOf(exchange));
    } catch (error) {
      // The handler receives the error; the author's listeners are notified here.
      failed(error);
      throw error;
    }
    if (active) return this.#activate(exchange, active);
    const { what, next } = defaults.explain(exchange);
    warnOnce(`no-stand-in ${next}`, { what, next });
    return undefined;
  }

  #activate(exchange: Exchange, active: ActiveSession): RequestSession {
    const { id } = active.session.record;
    const handle = new SessionHandle(active, exchange, (method, params) =>
      this.#options.notifier.send(id, method, params),
    );
    const session: RequestSession = { ...active, handle };
    requestSessions.set(exchange, session);
    return session;
  }

  async #commit(exchange: Exchange, active: RequestSession, response: Response): Promise<Response> {
    const { settings, failed, warnOnce } = this.#options;
    const { handle, session } = active;
    // An error carries no session, so changes made before it are discarded.
    if (!('result' in response)) {
      if (handle.revoked) await active.end();
      return response;
    }
    const { isChanged } = session.state;
    let committed: Committed = metaOf(session.record);
    // A handler that asks runs again from the top when the answers arrive, and then repeats its changes.
    if (response.result['resultType'] !== 'input_required') {
      if (settings.mode === 'sealed' && isChanged && isBehind(exchange)) warnOnce('session-behind', BEHIND);
      try {
        committed = await active.commit();
      } catch (error) {
        if (isChanged) return exchange.respond({ error: withOutcome(failed(error), 'not-done') });
        warnOnce('session-not-put-off', {
          what: `The expiry of a session could not be extended: ${messageOf(error)}`,
          next: 'Check the store. Calls that change nothing are served, and try again.',
        });
      }
    }
    return this.#settle(exchange, active, response, committed);
  }

  async #settle(
    exchange: Exchange,
    active: RequestSession,
    response: Response,
    committed: Committed,
  ): Promise<Response> {
    const { session, handle, isDefault } = active;
    const { sessions } = exchange.spelling;
    if (committed === 'conflict' || (committed === 'gone' && isDefault)) {
      active.isOutdated = true;
      return exchange.respond({ error: withOutcome(sessionConflict(sessions, handle.id), 'not-done') });
    }
    if (committed === 'gone')
      return exchange.respond({ error: sessionNotFound(sessions, handle.id, { begun: true }) });
    if (session.state.isChanged) active.isSaved = true;
    if (handle.revoked)
      await active.end().catch((error: unknown) => {
        throw active.isSaved ? partlyDone(error) : error;
      });
    return isDefault ? response : addMeta(response, writeSession(sessions, metaFor(exchange, committed)));
  }

  /** Returns why a client may not subscribe to a resource, or undefined if it may. */
  async #refuseSubscriber(exchange: Exchange, session: string | undefined): Promise<Reply | undefined> {
    const uri = exchange.request.params?.['uri'];
    return typeof uri === 'string' ? this.#options.listeners.admit(exchange, session, [uri]) : undefined;
  }

  /** Answers a subscription for which the server has no handler. */
  async #answerSubscription(exchange: Exchange, { record }: OpenSession): Promise<Reply> {
    if (typeof exchange.request.params?.['uri'] !== 'string')
      return invalid({ problem: 'wrong-type', where: 'params.uri' });
    await this.#options.notifier.subscribe(exchange, record.id);
    return { result: { _meta: writeSession(exchange.spelling.sessions, metaFor(exchange, metaOf(record))) } };
  }

  /** Records a subscription that the server's own handler has answered. */
  async #recordSubscription(exchange: Exchange, response: Response): Promise<Response> {
    if (!('result' in response) || exchange.round) return response;
    const active = sessionOf(exchange);
    try {
      await this.#options.notifier.subscribe(exchange, active && !active.isDefault ? active.handle.id : '');
      return response;
    } catch (error) {
      return exchange.respond({ error: this.#options.failed(error) });
    }
  }
}

/** Whether a handler has already worked on the call: it continues a flow, or runs again. */
function hasBegun(exchange: Exchange): boolean {
  // A `requestState` that is left in the params is the author's own.
  const { runs, request } = exchange;
  return runs > 0 || inputs.get(exchange) !== undefined || request.params?.['requestState'] !== undefined;
}

/**
 * Whether an HTTP header names another session than the message. A gateway may have checked one while we would use the other.
 */
function headerDisagrees({ extra, codec, spelling, transportSession }: Exchange, sessionId: string): boolean {
  // If the transport has its own session, its header refers to that one.
  return sessionHeaders(codec, spelling, transportSession !== undefined).some((name) => {
    const value = headerOf(extra, name);
    return value !== undefined && value !== sessionId;
  });
}
