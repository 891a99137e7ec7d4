import { type Duration, seconds } from '../../core/duration.ts';
import { ValiseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { ANYTHING, checkOptions, FLAG, FUNCTION, type TakenBy } from '../../core/options.ts';
import { isBusUrl } from '../../store/open.ts';
import type { Bus } from '../../store/types.ts';
import { checkSchema, type ObjectSchema, type StandardSchema } from '../jar/schema.ts';
import { shareOf } from '../quota.ts';
import { hook } from './errors.ts';
import type { EndedSession, NewListener, NewSession } from './session.ts';

/** Options of a server's data-layer sessions. */
export interface SessionsOptions<Schema extends ObjectSchema = ObjectSchema> {
  /**
   * Where a session's state is stored (`sealed` by default).
   *
   * `sealed`: in the client. It needs no store; of two parallel changes the later answer wins. `stored`: in the server's store.
   * No update is ever lost.
   */
  readonly mode?: 'sealed' | 'stored' | undefined;
  /** The lifetime of a session (4 hours by default). */
  readonly ttl?: Duration | undefined;
  /** Whether `ttl` counts from the last use (`sliding`, the default) or from the creation (`fixed`). */
  readonly lifetime?: 'sliding' | 'fixed' | undefined;
  /** The maximum lifetime of a session, however much it is used (30 days by default; 24 hours for an anonymous session). */
  readonly maxLifetime?: Duration | undefined;
  /** The maximum number of sessions that one principal may have at a time (100 by default). */
  readonly maxPerPrincipal?: number | undefined;
  /**
   * What happens when a principal creates one session too many (`end-oldest` by default).
   *
   * `end-oldest` ends the oldest session, but never the one that the new one is forked from. `refuse` refuses the new one.
   */
  readonly whenFull?: 'end-oldest' | 'refuse' | undefined;
  /**
   * How many anonymous sessions there may be over all clients, including default sessions.
   *
   * Any further one is refused. 0 refuses all of them.
   *
   * @defaultValue 10000
   */
  readonly maxAnonymous?: number | undefined;
  /**
   * How many anonymous sessions one caller may have. Any further one is refused.
   *
   * The option `caller` of `createValise` determines the caller.
   *
   * @defaultValue a tenth of `maxAnonymous`, and at least 100
   */
  readonly maxAnonymousPerCaller?: number | undefined;
  /**
   * How many bytes of state all anonymous sessions on this instance may have together.
   *
   * It counts state in the store, with `stored`, and in default sessions. One caller may use a tenth of it.
   * A call that would exceed the limit fails.
   *
   * @defaultValue 268435456 (256 MiB)
   */
  readonly maxAnonymousBytes?: number | undefined;
  /**
   * How many sessions may have ended within `ttl`. Beyond that, new sessions are refused.
   *
   * The server remembers each end until the session's seal has expired, and never forgets one earlier. One principal or caller
   * may have a tenth of the total.
   *
   * @defaultValue 100000
   */
  readonly maxEnded?: number | undefined;
  /**
   * How many listeners one instance serves at a time. Any further one is refused.
   *
   * @defaultValue 1024
   */
  readonly maxListeners?: number | undefined;
  /**
   * How many listeners one principal or caller may have.
   *
   * @defaultValue a tenth of `maxListeners`, and at least 100
   */
  readonly maxListenersPerCaller?: number | undefined;
  /**
   * How many resources one session, or one principal or connection without a session, may subscribe to.
   *
   * Any further subscription is refused.
   *
   * @defaultValue 100
   */
  readonly maxSubscriptions?: number | undefined;
  /**
   * Whether clients that do not support sessions get a default session (on by default).
   *
   * Operations that need a session then work for everybody.
   */
  readonly implicit?: boolean | undefined;
  /**
   * With `stored`: what happens to a handler whose reads another handler has changed in the meantime (`rerun` by default).
   *
   * `rerun` runs it again on the fresh state (at most 100 times). `fail` makes its call fail with a conflict.
   */
  readonly onConflict?: 'rerun' | 'fail' | undefined;
  /**
   * The schema of a session's state: any Standard Schema of an object with the session's keys.
   *
   * `set` refuses values that do not fit, `get` returns what the schema reads, and both have its types. Values may not be set
   * yet, so give them a default or make them optional. Namespaces are not covered by the schema.
   *
   * @example
   * ```ts
   * const valise = createValise({ name: 'notes', sessions: { schema: z.object({ notes: z.array(z.string()).default([]) }) } });
   * valise.session()?.get('notes'); // string[] | undefined
   * ```
   */
  readonly schema?: Schema | undefined;
  /** The maximum size of one session's state, in bytes (64 KiB; 1 MiB if there is a store). */
  readonly maxState?: number | undefined;
  /** With `sealed` and a store: states longer than this stay in the store, and only a reference travels (4 KiB by default). */
  readonly spillAbove?: number | undefined;
  /**
   * With `sealed` and a store: how many bytes of such large states one instance writes within `ttl`.
   *
   * Each call that changes a large state writes all of it again. One caller may use a tenth of the total. Beyond the limit such calls
   * fail.
   *
   * @defaultValue 268435456 (256 MiB)
   */
  readonly maxSpilled?: number | undefined;
  /** Called when a session begins, to allocate what it needs. It may set the first state. If it fails, there is no session. */
  readonly onCreate?: ((session: NewSession) => void | Promise<void>) | undefined;
  /**
   * Called when a session has ended or expired, to free what it held.
   *
   * One instance calls it, once. It is called again only if it failed or its process died in the middle.
   */
  readonly onEnd?: ((session: EndedSession) => void | Promise<void>) | undefined;
  /**
   * Whether somebody may listen or subscribe to a resource. Called each time they start to, before a handler runs.
   *
   * Any result but true refuses. Without this option, everybody may learn of changes to any resource whose URI they name.
   */
  readonly mayListen?: ((listener: NewListener) => boolean | Promise<boolean>) | undefined;
  /** Carries notifications between instances: a bus, or its URL. Without it they reach only listeners of this instance. */
  readonly bus?: Bus | string | undefined;
}

/** {@link SessionsOptions}, checked and with defaults applied. Durations are in seconds. */
export interface SessionsSettings {
  readonly mode: 'sealed' | 'stored';
  readonly ttl: number;
  readonly sliding: boolean;
  readonly maxLifetime: number;
  readonly maxAnonymousLifetime: number;
  readonly maxPerPrincipal: number;
  readonly refuseWhenFull: boolean;
  readonly maxAnonymous: number;
  readonly maxAnonymousPerCaller: number;
  readonly maxAnonymousBytes: number;
  readonly maxEnded: number;
  readonly maxListeners: number;
  readonly maxListenersPerCaller: number;
  readonly maxSubscriptions: number;
  readonly implicit: boolean;
  readonly rerun: boolean;
  readonly schema: StandardSchema | undefined;
  readonly maxState: number;
  readonly spillAbove: number;
  readonly maxSpilled: number;
  readonly onCreate: SessionsOptions['onCreate'];
  readonly onEnd: SessionsOptions['onEnd'];
  readonly mayListen: SessionsOptions['mayListen'];
}

/** The size of a token, in bytes, that every client and header accepts. For larger ones a warning states the cost. */
export const SAFE_STATE = 4096;

const TAKEN: TakenBy<SessionsOptions> = {
  mode: ANYTHING,
  ttl: ANYTHING,
  lifetime: ANYTHING,
  maxLifetime: ANYTHING,
  maxPerPrincipal: ANYTHING,
  whenFull: ANYTHING,
  maxAnonymous: ANYTHING,
  maxAnonymousPerCaller: ANYTHING,
  maxAnonymousBytes: ANYTHING,
  maxEnded: ANYTHING,
  maxListeners: ANYTHING,
  maxListenersPerCaller: ANYTHING,
  maxSubscriptions: ANYTHING,
  implicit: FLAG,
  onConflict: ANYTHING,
  schema: ANYTHING,
  maxState: ANYTHING,
  spillAbove: ANYTHING,
  maxSpilled: ANYTHING,
  onCreate: FUNCTION,
  onEnd: FUNCTION,
  mayListen: FUNCTION,
  bus: [
    'the URL of a bus, on memory:, redis:// or postgres://, or a bus',
    (value) => isBusUrl(value) || (isObject(value) && typeof value['publish'] === 'function'),
  ],
};

/** Checks the options and applies defaults. */
export function sessionsSettings(options: SessionsOptions, hasStore: boolean): SessionsSettings {
  checkOptions('createValise, under sessions,', options, TAKEN);
  const { mode = 'sealed', lifetime = 'sliding', whenFull = 'end-oldest', onConflict = 'rerun' } = options;
  if (options.schema !== undefined) checkSchema(options.schema, 'sessions');
  oneOf('mode', mode, ['sealed', 'stored']);
  oneOf('lifetime', lifetime, ['sliding', 'fixed']);
  oneOf('whenFull', whenFull, ['end-oldest', 'refuse']);
  oneOf('onConflict', onConflict, ['rerun', 'fail']);
  const ttl = seconds(options.ttl ?? '4h');
  const maxLifetime = Math.max(ttl, seconds(options.maxLifetime ?? '30d'));
  const maxAnonymous = count('maxAnonymous', options.maxAnonymous ?? 10_000, 0);
  const maxListeners = count('maxListeners', options.maxListeners ?? 1024, 1);
  return {
    mode,
    ttl,
    sliding: lifetime === 'sliding',
    maxLifetime,
    maxAnonymousLifetime: Math.min(maxLifetime, seconds('24h')),
    maxPerPrincipal: count('maxPerPrincipal', options.maxPerPrincipal ?? 100, 1),
    refuseWhenFull: whenFull === 'refuse',
    maxAnonymous,
    maxAnonymousPerCaller: count(
      'maxAnonymousPerCaller',
      options.maxAnonymousPerCaller ?? shareOf(maxAnonymous),
      0,
    ),
    maxAnonymousBytes: count('maxAnonymousBytes', options.maxAnonymousBytes ?? 256 * 1024 * 1024, 1),
    maxEnded: count('maxEnded', options.maxEnded ?? 100_000, 1),
    maxListeners,
    maxListenersPerCaller: count(
      'maxListenersPerCaller',
      options.maxListenersPerCaller ?? shareOf(maxListeners),
      1,
    ),
    maxSubscriptions: count('maxSubscriptions', options.maxSubscriptions ?? 100, 1),
    implicit: options.implicit ?? true,
    rerun: onConflict === 'rerun',
    schema: options.schema,
    maxState: count('maxState', options.maxState ?? (hasStore ? 1024 * 1024 : 64 * 1024), 1),
    spillAbove: count('spillAbove', options.spillAbove ?? SAFE_STATE, 1),
    maxSpilled: count('maxSpilled', options.maxSpilled ?? 256 * 1024 * 1024, 1),
    onCreate: hook(options.onCreate),
    onEnd: options.onEnd,
    mayListen: hook(options.mayListen),
  };
}

function oneOf(name: string, value: string, allowed: readonly string[]): void {
  if (allowed.includes(value)) return;
  throw new ValiseError('invalid-argument', `The option sessions.${name} is ${JSON.stringify(value)}.`, {
    next: `Give ${allowed.map((each) => `'${each}'`).join(' or ')}.`,
  });
}

function count(name: string, value: number, least: number): number {
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw new ValiseError('invalid-argument', `The option sessions.${name} is ${String(value)}.`, {
    next: `Give a whole number from ${least}.`,
  });
}
