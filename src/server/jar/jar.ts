import { type Duration, seconds } from '../../duration.ts';
import { ValiseError } from '../../errors.ts';
import { ANYTHING, checkOptions, SETTINGS, type Taken, type TakenBy } from '../../options.ts';
import { INTERNAL_ERROR, type Response, type RpcError, type Scope, withOutcome } from '../../wire/index.ts';
import type { HandleLimits } from '../carriers/handle-records.ts';
import type { ServerContext } from '../context.ts';
import { addMeta, currentExchange, type Exchange, type ServerMiddleware } from '../exchange.ts';
import { type Fault, faultOn, isOfStore, outcomeOf, partlyDone } from '../fault.ts';
import { shareOf } from '../quota.ts';
import { works } from '../sessions/work.ts';
import { Slot } from '../slot.ts';
import { carriedSources, writeCarried } from './carried.ts';
import { createKeeper } from './keeper.ts';
import { type JarDeclarations, type KeySettings, Keys } from './key.ts';
import { suffixWarning } from './public-suffix.ts';
import { ScopedState } from './scope.ts';
import type { Changes, Report } from './source.ts';
import type { ServerJar } from './types.ts';

/** Options of a server's state. */
export interface JarOptions extends JarDeclarations {
  /** How long the store keeps the session state of a client that carries none, after its last use (7 days by default). */
  readonly ttl?: Duration;
  /**
   * For how many sessions of one principal the store keeps state. A further one replaces the oldest.
   *
   * @defaultValue 100
   */
  readonly maxPerPrincipal?: number;
  /**
   * How many entries the store keeps for anonymous clients, at most two for each session. Any further one is refused.
   *
   * @defaultValue 10000
   */
  readonly maxAnonymous?: number;
  /**
   * How many of these entries one caller may have. The option `caller` of `createValise` determines the caller.
   *
   * @defaultValue a tenth of `maxAnonymous`, and at least 100
   */
  readonly maxAnonymousPerCaller?: number;
  /**
   * How many bytes these entries may take together, as far as this instance has written them.
   *
   * One caller may use a tenth of it. A call that would exceed the limit fails.
   *
   * @defaultValue 268435456 (256 MiB)
   */
  readonly maxAnonymousBytes?: number;
}

type BothScopes = { readonly [S in Scope]: ScopedState };

/** The server side of the state jar. */
export interface StateFamily {
  /** Loads state before the handler runs, and saves what it set: with the client, or in the store. */
  readonly middleware: ServerMiddleware;
  /** The public API, which reads the exchange of the handler that is running. */
  readonly api: ServerJar;
  /** How many new handles there may be within an hour. */
  readonly limits: HandleLimits;
}

const SESSION_TTL = '7d';

const COUNT: Taken = ['a whole number from 0', (value) => Number.isSafeInteger(value) && Number(value) >= 0];

const TAKEN: TakenBy<JarOptions> = {
  ttl: ANYTHING,
  session: SETTINGS,
  server: SETTINGS,
  maxPerPrincipal: COUNT,
  maxAnonymous: COUNT,
  maxAnonymousPerCaller: COUNT,
  maxAnonymousBytes: COUNT,
};

/** The state of one request. */
interface Begun {
  readonly scopes: BothScopes;
  /** The session that carried values are bound to. */
  readonly session: string | null;
}

const begun = new Slot<Begun>();

/** Creates the server side of the jar. */
export function createJar(context: ServerContext, options: JarOptions = {}): StateFamily {
  checkOptions('createValise, under jar,', options, TAKEN);
  const { ttl = SESSION_TTL, maxPerPrincipal = 100, maxAnonymous = 10_000, session, server } = options;
  const { maxAnonymousPerCaller = shareOf(maxAnonymous), maxAnonymousBytes = 256 * 1024 * 1024 } = options;
  const declared: JarDeclarations = { ...(session && { session }), ...(server && { server }) };
  const keys = new Keys(declared);
  const warnOfSuffix = suffixWarning(context.warnOnce);
  for (const named of [session, server])
    for (const [name, settings] of Object.entries(named ?? {})) warnOfSuffix(name, settings);
  const fault = faultOn(context.events);
  const keeper = createKeeper(context, {
    keys,
    sessionTtl: seconds(ttl),
    limits: { maxPerPrincipal, maxAnonymous, maxAnonymousPerCaller, maxAnonymousBytes },
  });

  const report =
    (scope: Scope): Report =>
    (name, reason) =>
      context.events.emit('rejected', {
        family: 'state',
        what: `${scope} state ${JSON.stringify(name.slice(0, 200))}`,
        reason,
      });

  const begin = (exchange: Exchange): BothScopes => {
    const { kind, thread: session } = exchange.carrier;
    const carried = kind === 'client' ? carriedSources(exchange, context, report, session) : undefined;
    const scoped = (scope: Scope): ScopedState =>
      new ScopedState(scope, {
        source: carried?.[scope] ?? keeper.source(exchange, scope),
        keys,
        report: report(scope),
        answered: () => exchange.isAnswered,
      });
    const scopes = { session: scoped('session'), server: scoped('server') };
    begun.set(exchange, { scopes, session });
    return scopes;
  };

  const save = async (exchange: Exchange, response: Response): Promise<Response> => {
    try {
      await keeper.save(exchange, changesOf(begun.get(exchange)?.scopes));
      return response;
    } catch (error) {
      const failed = works.get(exchange)?.isSaved ? partlyDone(error) : error;
      return exchange.respond({ error: notSaved(failed, fault) });
    }
  };

  const current = (): BothScopes => {
    const exchange = currentExchange(context);
    if (!exchange) throw outsideRequest();
    return begun.get(exchange)?.scopes ?? begin(exchange);
  };

  return {
    limits: { perCaller: maxAnonymousPerCaller, total: maxAnonymous },

    async middleware(exchange, next) {
      // The handler may be running again, on current data.
      begun.set(exchange, undefined);
      const isCarried = exchange.carrier.kind === 'client';
      const loading = isCarried ? undefined : keeper.load(exchange);
      if (loading) await loading;
      const response = await next();
      if (exchange.round || !('result' in response)) return response;
      if (loading) return save(exchange, response);
      const state = isCarried ? begun.get(exchange) : undefined;
      if (!state) return response;
      return addMeta(response, writeCarried(exchange, context, keys, changesOf(state.scopes), state.session));
    },

    api: {
      get session() {
        return current().session;
      },
      get server() {
        return current().server;
      },
      key(name, settings: KeySettings = {}) {
        keys.declare(name, settings);
        warnOfSuffix(name, settings);
        return { name };
      },
    },
  };
}

function changesOf(state: BothScopes | undefined): { readonly [S in Scope]: Changes } {
  return { session: state?.session.changes ?? new Map(), server: state?.server.changes ?? new Map() };
}

/**
 * Returns the error for state that could not be saved. Unless its outcome says otherwise, nothing was done: the client may send
 * its request, or its answer to a round, again.
 */
function notSaved(error: unknown, fault: Fault): RpcError {
  if (isOfStore(error) || !(error instanceof ValiseError)) return fault(error);
  const message = `The state that this call set could not be saved: ${error.message}`;
  return withOutcome({ code: INTERNAL_ERROR, message }, outcomeOf(error) ?? 'not-done');
}

function outsideRequest(): ValiseError {
  return new ValiseError('outside-request', 'valise.jar was used where no request is being handled.', {
    next: 'Use it inside a handler of a server on which this Valise is installed.',
  });
}
