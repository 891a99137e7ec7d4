import { ValiseError } from '../../errors.ts';
import { memoryStore } from '../../store/memory/store.ts';
import type { Params, Revocation } from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import { currentExchange, type Exchange, type ServerMiddleware } from '../exchange.ts';
import { faultOn } from '../fault.ts';
import { type Principal, principalKey } from '../principal.ts';
import { Quota } from '../quota.ts';
import { Endings } from './endings.ts';
import { type Gated, Gates } from './gate.ts';
import { ImplicitSessions } from './implicit.ts';
import { sealedKeeping } from './keep-sealed.ts';
import { storedKeeping } from './keep-stored.ts';
import { admission } from './listen/admission.ts';
import { busBeside, Channel } from './listen/channel.ts';
import { MAX_WAITING } from './listen/listener.ts';
import { Listeners } from './listen/listeners.ts';
import { NotificationLog } from './listen/log.ts';
import { Notifier } from './listen/notifier.ts';
import { Subscriptions, subscribers } from './listen/subscriptions.ts';
import { sessionMethods } from './methods.ts';
import { type SessionsOptions, type SessionsSettings, sessionsSettings } from './options.ts';
import { RecordProof } from './record-proof.ts';
import { Registry } from './registry.ts';
import { failedWith } from './reply.ts';
import { createSessionRequests, type SessionRequests } from './requests.ts';
import { isLiving } from './row.ts';
import type { Session } from './session.ts';
import { createFinish, unfound, works } from './work.ts';

/** The server side of data-layer sessions. */
export interface SessionsFamily {
  /** Proves sessions and answers their methods. It is outside of everything that trusts what a request says. */
  readonly requests: SessionRequests;
  /** Saves changes, or makes `requests` run the handler again. It is inside of everything that must not act twice. */
  readonly commit: ServerMiddleware;
  /** How far the end of a session reaches. */
  readonly revocation: Revocation;
  session(): Session | undefined;
  require(gated: readonly Gated[]): void;
  /** Whether a call of a tool needs a session. */
  isRequired(exchange: Exchange, tool: string): boolean;
  revoke(id: string): Promise<boolean>;
  /** Ends the session that stands in for a transport session that only its seal proves. */
  endStandIn(transportSession: string, principal: Principal | undefined): Promise<void>;
  /** Notifies the listeners of a session, or those without one. */
  notify(id: string | undefined, method: string, params?: Params): Promise<void>;
  close(): Promise<void>;
}

/** Creates the server side of sessions. `storeUrl` is the store's URL, if known, since a bus may be at the same place. */
export function createSessions(
  context: ServerContext,
  options: SessionsOptions,
  storeUrl?: string,
): SessionsFamily {
  const { store, name, events, warnOnce } = context;
  const settings = sessionsSettings(options, store !== undefined);
  const { ttl, onEnd, maxLifetime: longest } = settings;
  const place = store ?? memoryStore();
  // A generated key differs after a restart and in each instance.
  const proof = store && !context.sealer.ephemeral ? new RecordProof(context) : undefined;
  const states = new Quota({
    perCaller: { bytes: settings.maxAnonymousBytes / 10 },
    total: { bytes: settings.maxAnonymousBytes },
  });
  const registry = new Registry(place, name, {
    lingers: onEnd !== undefined,
    ttl,
    longest,
    longestAnonymous: settings.maxAnonymousLifetime,
    proof,
    states,
  });
  const channel = new Channel({ name, bus: options.bus ?? busBeside(storeUrl) });
  const log = new NotificationLog(registry.store, Math.max(ttl, 86_400));
  const lives = async (id: string, at = Date.now()): Promise<boolean> => {
    const found = await registry.find(id);
    if (found) return isLiving(found.row);
    // A sealed session proves itself. One that was last seen this long ago has expired.
    return settings.mode === 'sealed' && !endings.isOver(id) && Date.now() - at < ttl * 1000;
  };
  const subscriptions = new Subscriptions({
    store: registry.store,
    ttl: longest,
    max: settings.maxSubscriptions,
    lives,
  });
  const subscriberOf = subscribers(settings, registry);
  const notifier = new Notifier({ log, channel, subscriptions, subscriberOf, lives, warnOnce });
  const onOver = (id: string): void => void notifier.over(id).catch(() => undefined);
  const endings = new Endings({
    registry,
    local: !store,
    remembers: !store && settings.mode === 'sealed',
    maxEnded: settings.maxEnded,
    ttl,
    onEnd,
    onOver,
    warnOnce,
  });
  const stored = storedKeeping(context, settings, { registry, endings });
  const keeping =
    settings.mode === 'stored' ? stored : sealedKeeping(context, settings, { registry, endings });
  if (!store && settings.mode === 'stored') warnOfMemory(context);

  const refuse = (id: string, reason: string): void =>
    events.emit('rejected', { family: 'sessions', what: `session ${id.slice(0, 9)}…`, reason });
  const failed = failedWith(faultOn(events), events);
  const looks = store !== undefined && !channel.isShared;
  const gates = new Gates();
  const admit = admission({ gates, mayListen: settings.mayListen });
  const listeners = new Listeners({
    keeping,
    log,
    channel,
    subscriptions,
    admit,
    subscriberOf,
    follow: (exchange, subscriber) => notifier.follow(exchange, subscriber),
    max: settings.maxListeners,
    maxPerCaller: settings.maxListenersPerCaller,
    looks,
    refuse,
    behind: () =>
      events.emit('rejected', {
        family: 'sessions',
        what: 'notifications for a listener',
        reason: `it does not read, and ${MAX_WAITING} wait in memory; it gets the rest from those that are kept`,
      }),
    failed,
    lives,
  });
  const finish = createFinish(settings, failed, warnOnce);
  const implicit = new ImplicitSessions({
    settings,
    states,
    shared: { registry, endings, keeping: stored },
  });
  const requests = createSessionRequests({
    settings,
    keeping,
    endings,
    implicit,
    gates,
    answerMethod: sessionMethods({ settings, registry, endings, keeping, refuse, failed }),
    listeners,
    admit,
    notifier,
    refuse,
    failed,
    warnOnce,
  });

  return {
    requests,

    revocation: reach(settings.mode, store !== undefined && !storeUrl?.startsWith('memory:')),

    async commit(exchange, next) {
      const response = await next();
      const work = works.get(exchange);
      return work && !exchange.round ? finish(exchange, work, response) : response;
    },

    session() {
      const exchange = currentExchange(context);
      if (!exchange) throw outsideRequest();
      const work = works.get(exchange);
      if (work) return work.handle;
      const missing = unfound.get(exchange);
      if (missing) {
        exchange.note(missing.error);
        throw missing.error;
      }
      return requests.standIn(exchange)?.handle;
    },

    require: (gated) => gates.add(gated),

    isRequired: (exchange, name) =>
      settings.implicit &&
      gates.requires(exchange, { ...exchange.request, method: 'tools/call', params: { name } }),

    revoke(id) {
      // A stored session has a record. Only a sealed session can be unknown here.
      if (settings.mode === 'stored') return endings.end(id, 'revoked');
      const now = Date.now();
      const row = { owner: null, shelf: '', label: null, created: now, expires: now + ttl * 1000 };
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

    endStandIn: (transportSession, principal) => implicit.over(transportSession, principalKey(principal)),

    notify: (id, method, params) =>
      id === undefined ? notifier.broadcast(method, params) : notifier.tell(id, method, params),

    async close() {
      listeners.close();
      await endings.close();
      await channel.close();
      if (!store) await place.close();
    },
  };
}

/**
 * Returns how far the end of a session reaches.
 *
 * Sealed sessions prove themselves, so only a store that outlives the process can end them everywhere.
 */
function reach(mode: SessionsSettings['mode'], shared: boolean): Revocation {
  return shared || mode === 'stored' ? 'everywhere' : 'expiry';
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

/** Defers the warning, so that listeners added right after `createValise` receive it too. */
function warnOfMemory({ warnOnce }: ServerContext): void {
  queueMicrotask(() =>
    warnOnce('sessions-in-memory', {
      what: 'Sessions are to be stored and there is no store, so they are in the memory of this process alone.',
      next: "Give createValise a store, such as store: 'sqlite:./state.db'; or use sessions: { mode: 'sealed' }.",
    }),
  );
}
