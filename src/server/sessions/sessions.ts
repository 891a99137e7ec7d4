import { ValiseError } from '../../errors.ts';
import { memoryStore } from '../../store/memory.ts';
import {
  isProblem,
  readSession,
  type SessionMeta,
  sessionMethod,
  sessionNotFound,
  sessionRequired,
} from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import { currentExchange, type Exchange } from '../exchange.ts';
import type { Reply, ServerPart } from '../part.ts';
import { askerOf } from './asker.ts';
import { Endings } from './endings.ts';
import { type Gated, Gates, isOperation } from './gate.ts';
import { Handle } from './handle.ts';
import { headerDisagrees } from './header.ts';
import { type Asker, type Held, isRefusal, type Refusal } from './held.ts';
import { type Implicit, ImplicitSessions } from './implicit.ts';
import { sealedKeeping } from './keep-sealed.ts';
import { storedKeeping } from './keep-stored.ts';
import { sessionMethods } from './methods.ts';
import { type SessionsOptions, sessionsSettings } from './options.ts';
import { Registry } from './registry.ts';
import { failed, invalid } from './reply.ts';
import type { Session } from './session.ts';
import { createFinish, type Work } from './work.ts';

/** Family S on the server's side. */
export interface SessionsFamily {
  /** Proves sessions and answers their methods; it comes before the parts that trust what a request says. */
  readonly door: ServerPart;
  /** Keeps what changed; it comes after the parts that must not act twice where a handler runs again. */
  readonly desk: ServerPart;
  session(): Session | undefined;
  require(gated: readonly Gated[]): void;
  revoke(id: string): Promise<boolean>;
  close(): Promise<void>;
}

/** Makes family S. */
export function createSessions(context: ServerContext, options: SessionsOptions): SessionsFamily {
  const { store, name, events, warnOnce } = context;
  const settings = sessionsSettings(options, store !== undefined);
  const memory = store ? undefined : memoryStore();
  const registry = new Registry(store ?? (memory as NonNullable<typeof memory>), name, {
    lingers: settings.onEnd !== undefined,
    longest: settings.maxLifetime,
  });
  const endings = new Endings({
    registry,
    local: !store,
    ttl: settings.ttl,
    onEnd: settings.onEnd,
    warnOnce,
  });
  const stored = storedKeeping(context, settings, { registry, endings });
  const keeping =
    settings.mode === 'stored' ? stored : sealedKeeping(context, settings, { registry, endings });
  const implicit = new ImplicitSessions({
    settings,
    shared: store && { registry, endings, keeping: stored },
  });
  const gates = new Gates();
  const works = new WeakMap<Exchange, Work>();
  const finish = createFinish(settings);
  if (!store && settings.mode === 'stored') warnOfMemory(context);

  const refuse = (id: string, reason: string): void =>
    events.emit('rejected', { family: 'sessions', what: `session ${id.slice(0, 9)}…`, reason });
  const answerMethod = sessionMethods({ settings, registry, endings, keeping, refuse });

  const handle = (exchange: Exchange, held: Held, isImplicit: boolean): Handle =>
    new Handle(held, {
      implicit: isImplicit,
      answered: () => exchange.isAnswered,
      notify: async () => undefined,
    });

  const enter = (
    exchange: Exchange,
    asker: Asker,
    session: SessionMeta,
    held: Held | Refusal,
  ): Reply | undefined => {
    if (isRefusal(held)) {
      refuse(session.sessionId, held.refused);
      return { error: sessionNotFound(exchange.era, session.sessionId) };
    }
    works.set(exchange, {
      held,
      handle: handle(exchange, held, false),
      commit: () => keeping.commit(held, asker),
      end: () => endings.end(held.id, 'revoked'),
    });
    return undefined;
  };

  const enterImplicit = (
    exchange: Exchange,
    stands: Implicit | undefined,
    required: boolean,
  ): Reply | undefined => {
    if (!stands) return required ? { error: sessionRequired(exchange.era) } : undefined;
    const { held, commit, end } = stands;
    works.set(exchange, { held, handle: handle(exchange, held, true), commit, end });
    return undefined;
  };

  /** Only for a client that knows no sessions: one that does is told to make one. */
  const mayStandIn = ({ peer, transportSession, method }: Exchange): boolean =>
    settings.implicit && !peer.families.sessions && transportSession !== undefined && isOperation(method);

  const without = (exchange: Exchange): Reply | undefined | Promise<Reply | undefined> => {
    const required = gates.requires(exchange);
    if (!mayStandIn(exchange)) return required ? { error: sessionRequired(exchange.era) } : undefined;
    const stands = implicit.open(exchange, askerOf(exchange), { required });
    if (!(stands instanceof Promise)) return enterImplicit(exchange, stands, required);
    return stands.then((late) => enterImplicit(exchange, late, required), broken);
  };

  const within = (
    exchange: Exchange,
    session: SessionMeta,
  ): Reply | undefined | Promise<Reply | undefined> => {
    if (headerDisagrees(exchange, session.sessionId))
      return invalid({ problem: 'conflict', where: 'the HTTP header of the session' });
    const asker = askerOf(exchange);
    try {
      const opened = keeping.open(session, asker);
      if (!(opened instanceof Promise)) return enter(exchange, asker, session, opened);
      return opened.then((late) => enter(exchange, asker, session, late), broken);
    } catch (error) {
      return broken(error);
    }
  };

  return {
    door: {
      families: { sessions: true },

      receive(exchange) {
        // The handler may be running again, on what is true now.
        works.delete(exchange);
        const method = sessionMethod(exchange.method);
        if (method && method.verb !== 'listen') return answerMethod(method.verb, exchange, askerOf(exchange));
        const session = readSession(exchange.request.params?._meta);
        // Where nobody will answer, the SDK says so, with the HTTP status that belongs to it.
        if (!exchange.isHandled) return undefined;
        if (session === undefined) return without(exchange);
        if (session === null) return invalid({ problem: 'bad-value', where: 'params._meta' });
        return isProblem(session) ? invalid(session) : within(exchange, session);
      },

      closed: (link) => implicit.closed(link),
    },

    desk: {
      receive(exchange) {
        const work = works.get(exchange);
        if (work) exchange.whenAnswered((response) => finish(exchange, work, response));
        return undefined;
      },
    },

    session() {
      const exchange = currentExchange();
      if (!exchange) throw outsideRequest();
      const work = works.get(exchange);
      if (work) return work.handle;
      if (!mayStandIn(exchange) || exchange.isAnswered) return undefined;
      enterImplicit(exchange, implicit.openNow(exchange, askerOf(exchange)), false);
      const begun = works.get(exchange);
      if (begun) exchange.whenAnswered((response) => finish(exchange, begun, response));
      return begun?.handle;
    },

    require: (gated) => gates.add(gated),

    revoke: (id) => {
      const now = Date.now();
      const row = { owner: null, shelf: '', label: null, created: now, expires: now + settings.ttl * 1000 };
      return endings.end(id, 'revoked', {
        ...row,
        id,
        until: now,
        seq: 0,
        data: null,
        ended: null,
        told: false,
      });
    },

    async close() {
      await endings.close();
      await memory?.close();
    },
  };
}

/** A store that does not answer must not leave a request without an answer. */
function broken(error: unknown): Reply {
  return { error: failed(error) };
}

function outsideRequest(): ValiseError {
  return new ValiseError(
    'outside-request',
    'valise.session() was called where no request is being handled.',
    {
      next: 'Call it inside a handler of a server on which this Valise is installed.',
    },
  );
}

/** A moment later, so that listeners which are added right after `createValise` hear it too. */
function warnOfMemory({ warnOnce }: ServerContext): void {
  queueMicrotask(() =>
    warnOnce('sessions-in-memory', {
      what: 'Sessions are to be stored and there is no store, so they are in the memory of this process alone.',
      next: "Give createValise a store, such as store: 'sqlite:./state.db'; or use sessions: { mode: 'sealed' }.",
    }),
  );
}
