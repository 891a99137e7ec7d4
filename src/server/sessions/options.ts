import { type Duration, seconds } from '../../duration.ts';
import { ValiseError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import { ANYTHING, checkOptions, FLAG, FUNCTION, type TakenBy } from '../../options.ts';
import { isBusUrl } from '../../store/open.ts';
import type { Bus } from '../../store/types.ts';
import { shareOf } from '../quota.ts';
import { checkSchema, type ObjectSchema, type StandardSchema } from '../state/schema.ts';
import type { EndedSession, NewListener, NewSession } from './hooks.ts';
import { hook } from './reply.ts';

/** Settings of a server's data-layer sessions. */
export interface SessionsOptions<Schema extends ObjectSchema = ObjectSchema> {
  /**
   * Where a session's state is: `sealed` in the client's hands (no store needed; of two parallel changes the later
   * answer wins), or `stored` in the server's store (no update is ever lost). `sealed` by default.
   */
  readonly mode?: 'sealed' | 'stored' | undefined;
  /** How long a session lives (4 hours by default). */
  readonly ttl?: Duration | undefined;
  /** `sliding` counts from the last use, `fixed` from the creation. `sliding` by default. */
  readonly lifetime?: 'sliding' | 'fixed' | undefined;
  /** The end of a session however much it is used (30 days by default; 24 hours for one that belongs to nobody). */
  readonly maxLifetime?: Duration | undefined;
  /** How many sessions one principal may have at a time (100 by default). */
  readonly maxPerPrincipal?: number | undefined;
  /**
   * What happens to one more: the oldest ends, though never the one that the new one is forked from, or the new one is
   * refused. `end-oldest` by default.
   */
  readonly whenFull?: 'end-oldest' | 'refuse' | undefined;
  /**
   * How many sessions may belong to nobody, over all clients that are not known by name, stand-ins for a transport's session
   * included. One more is refused. 0 refuses all of them.
   *
   * @defaultValue 10000
   */
  readonly maxAnonymous?: number | undefined;
  /**
   * How many of them one caller may have; the option `caller` of `createValise` says who that is. One more is refused.
   *
   * @defaultValue a tenth of `maxAnonymous`, and at least 100
   */
  readonly maxAnonymousPerCaller?: number | undefined;
  /**
   * How many bytes of state sessions of nobody may have together that this instance keeps: in the store, with `stored`, and in
   * stand-ins for a transport's session. One caller may have a tenth of them. A call that would add more fails.
   *
   * @defaultValue 268435456 (256 MiB)
   */
  readonly maxAnonymousBytes?: number | undefined;
  /**
   * How many sessions may have ended within `ttl`: for each the server remembers until its seal has run out that it is over. One
   * principal or caller may have a tenth of them. From then on new sessions are refused; no end is ever forgotten.
   *
   * @defaultValue 100000
   */
  readonly maxEnded?: number | undefined;
  /**
   * How many listeners one instance serves at a time. One more is refused.
   *
   * @defaultValue 1024
   */
  readonly maxListeners?: number | undefined;
  /**
   * How many of them one principal or caller may have.
   *
   * @defaultValue a tenth of `maxListeners`, and at least 100
   */
  readonly maxListenersPerCaller?: number | undefined;
  /**
   * How many resources one session may subscribe to, or one principal or connection without a session. One more is refused.
   *
   * @defaultValue 100
   */
  readonly maxSubscriptions?: number | undefined;
  /**
   * For a client that knows no sessions the transport's own session stands in, so that operations that need one work
   * for everybody. On by default.
   */
  readonly implicit?: boolean | undefined;
  /**
   * `stored`: what becomes of a handler that read what another one has changed in the meantime. It runs again on the
   * fresh state (at most 100 times), or its call fails with a conflict. `rerun` by default.
   */
  readonly onConflict?: 'rerun' | 'fail' | undefined;
  /**
   * What a session holds: any Standard Schema of an object, with the session's keys. `set` refuses what does not fit, `get` gives
   * what the schema reads, and both have its types. Values that are not set yet need not be there, so give them a default or make
   * them optional. Namespaces are apart from it.
   *
   * @example
   * ```ts
   * const valise = createValise({ name: 'notes', sessions: { schema: z.object({ notes: z.array(z.string()).default([]) }) } });
   * valise.session()?.get('notes'); // string[] | undefined
   * ```
   */
  readonly schema?: Schema | undefined;
  /** The most bytes of state in one session (64 KiB; 1 MiB where there is a store to keep it in). */
  readonly maxState?: number | undefined;
  /** `sealed`: states longer than this stay in the store, where there is one, and only their name travels (4 KiB by default). */
  readonly spillAbove?: number | undefined;
  /**
   * `sealed`, with a store: how many bytes of such states one instance writes within `ttl`; one caller may have a tenth of them. Each
   * call that changes a large state writes it anew. From then on such calls fail.
   *
   * @defaultValue 268435456 (256 MiB)
   */
  readonly maxSpilled?: number | undefined;
  /** A session begins: allocate what it needs. Where this fails, there is no session. May set its first state. */
  readonly onCreate?: ((session: NewSession) => void | Promise<void>) | undefined;
  /**
   * A session has ended: free what it held. Called once, by one instance, also where the session simply ran out; again
   * only where it failed or its process died in the middle.
   */
  readonly onEnd?: ((session: EndedSession) => void | Promise<void>) | undefined;
  /**
   * Whether somebody may listen, asked each time they begin to, or subscribe to a resource; without it everybody may hear
   * that any resource changed whose URI they name. Anything but true refuses it, before a handler runs.
   */
  readonly mayListen?: ((listener: NewListener) => boolean | Promise<boolean>) | undefined;
  /** Carries notifications between instances: a bus, or its URL. Without it they reach listeners of this instance alone. */
  readonly bus?: Bus | string | undefined;
}

/** {@link SessionsOptions}, read and checked. Durations are seconds. */
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

/** A token that every client and header takes; from here on a warning says what it costs. */
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

/** Reads and checks the options. */
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
  throw new ValiseError('bad-option', `The option sessions.${name} is ${JSON.stringify(value)}.`, {
    next: `Give ${allowed.map((each) => `'${each}'`).join(' or ')}.`,
  });
}

function count(name: string, value: number, least: number): number {
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw new ValiseError('bad-option', `The option sessions.${name} is ${String(value)}.`, {
    next: `Give a whole number from ${least}.`,
  });
}
