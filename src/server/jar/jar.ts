import { type Duration, seconds } from '../../core/duration.ts';
import { ValiseError } from '../../core/errors.ts';
import { ANYTHING, checkOptions, SETTINGS, type Taken, type TakenBy } from '../../core/options.ts';
import { INTERNAL_ERROR, type Response, type RpcError, type Scope, withOutcome } from '../../wire/index.ts';
import type { HandleLimits } from '../carriers/handles.ts';
import type { ServerContext } from '../context.ts';
import { addMeta, currentExchange, type Exchange, type ServerMiddleware, Slot } from '../exchange.ts';
import { type Fault, faultOn, isOfStore, outcomeOf, partlyDone } from '../fault.ts';
import { shareOf } from '../quota.ts';
import { sessionOf } from '../sessions/request-session.ts';
import { carriedSources, writeCarried } from './carried.ts';
import { type JarDeclarations, type KeySettings, Keys, suffixWarning } from './keys.ts';
import { JarLimits } from './limits.ts';
import { type Changes, type Report, ScopedState } from './scope.ts';
import { type LoadedJar, StoredJar } from './stored.ts';
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

/** The server side of the jar. */
export interface JarFamily {
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

/** The jar of one request. */
interface RequestJar {
  /** What was loaded from the store, if the client does not carry the jar itself. */
  readonly loaded?: LoadedJar;
  /** Created when the handler first uses the jar. */
  scopes?: BothScopes;
}

const jars = new Slot<RequestJar>();

/** Creates the server side of the jar. */
export function createJar(context: ServerContext, options: JarOptions = {}): JarFamily {
  checkOptions('createValise, under jar,', options, TAKEN);
  const { ttl = SESSION_TTL, maxPerPrincipal = 100, maxAnonymous = 10_000, session, server } = options;
  const { maxAnonymousPerCaller = shareOf(maxAnonymous), maxAnonymousBytes = 256 * 1024 * 1024 } = options;
  const declared: JarDeclarations = { ...(session && { session }), ...(server && { server }) };
  const keys = new Keys(declared);
  const warnOfSuffix = suffixWarning(context.warnOnce);
  for (const named of [session, server])
    for (const [name, settings] of Object.entries(named ?? {})) warnOfSuffix(name, settings);
  const fault = faultOn(context.events);
  const sessionTtl = seconds(ttl);
  const stored = new StoredJar(context, {
    keys,
    sessionTtl,
    limits: new JarLimits(context.name, sessionTtl, {
      maxPerPrincipal,
      maxAnonymous,
      maxAnonymousPerCaller,
      maxAnonymousBytes,
    }),
  });

  const report: Report = (scope, name, reason) =>
    context.events.emit('rejected', {
      family: 'jar',
      what: `${scope} state ${JSON.stringify(name.slice(0, 200))}`,
      reason,
    });

  const openScopes = (exchange: Exchange, loaded: LoadedJar | undefined): BothScopes => {
    const carried =
      exchange.carrier.kind === 'client' ? carriedSources(exchange, context, report) : undefined;
    const open = (scope: Scope): ScopedState =>
      new ScopedState(scope, {
        source: carried?.[scope] ?? stored.source(exchange, scope, loaded),
        keys,
        report,
        exchange,
      });
    return { session: open('session'), server: open('server') };
  };

  const current = (): BothScopes => {
    const exchange = currentExchange(context);
    if (!exchange) throw outsideRequest();
    let jar = jars.get(exchange);
    if (!jar) jars.set(exchange, (jar = {}));
    jar.scopes ??= openScopes(exchange, jar.loaded);
    return jar.scopes;
  };

  /** Saves what the handler set in the store. */
  const save = async (
    exchange: Exchange,
    { loaded, scopes }: RequestJar & { readonly loaded: LoadedJar },
    response: Response,
  ): Promise<Response> => {
    try {
      await stored.save(exchange, loaded, changesOf(scopes));
      return response;
    } catch (error) {
      const failed = sessionOf(exchange)?.isSaved ? partlyDone(error) : error;
      return exchange.respond({ error: notSaved(failed, fault) });
    }
  };

  return {
    limits: { perCaller: maxAnonymousPerCaller, total: maxAnonymous },

    async middleware(exchange, next) {
      const isCarried = exchange.carrier.kind === 'client';
      const store = isCarried ? undefined : stored.storeFor(exchange);
      const loaded = store && { loaded: await stored.load(exchange, store) };
      // The handler may be running again, on current data.
      jars.set(exchange, loaded);
      const response = await next();
      if (exchange.round || !('result' in response)) return response;
      if (loaded) return save(exchange, loaded, response);
      const { scopes } = (isCarried && jars.get(exchange)) || {};
      return scopes ? addMeta(response, writeCarried(exchange, context, keys, changesOf(scopes))) : response;
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
  return new ValiseError('outside-request', 'valise.jar was used outside of a request.', {
    next: 'Use it inside a handler of a server on which this Valise is installed.',
  });
}
