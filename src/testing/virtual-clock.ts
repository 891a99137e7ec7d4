import { type Duration, seconds } from '../core/duration.ts';
import { ValiseError } from '../core/errors.ts';

/** The clock of this process, which a test can move forward. */
export interface VirtualClock {
  /** Returns milliseconds since 1970, as `Date.now()` does while the clock is in use. */
  now(): number;
  /** Moves the time forward and runs the timers that become due, in order. */
  advance(by: Duration): Promise<void>;
  /** Restores the real time. */
  restore(): void;
}

interface Timer {
  readonly run: () => void;
  readonly period: number;
  readonly repeats: boolean;
  at: number;
}

/** The maximum number of timers that one `advance` runs. More means that a timer reschedules itself endlessly. */
const MAX_RUNS = 100_000;

let inUse = false;

/**
 * Replaces the time of this process: `Date`, `performance.now()`, `setTimeout()` and `setInterval()`. Lifetimes of
 * sessions, jar entries, seals and stores in this process then end when the test says so. Time passes as usual between
 * two calls of `advance`, so nothing that waits for a socket or a promise hangs.
 *
 * There is one clock for the whole process, because a seal, the record that it protects and the store must agree on the
 * time. It does not affect the clocks of Redis and PostgreSQL.
 *
 * @throws ValiseError `invalid-argument` if a virtual clock is already in use.
 *
 * @example
 * ```ts
 * const clock = virtualClock();
 * await store.put('key', 'value', { ttl: 3600 });
 * await clock.advance('2h');
 * await store.get('key'); // undefined
 * clock.restore();
 * ```
 */
export function virtualClock(): VirtualClock {
  if (inUse) {
    throw new ValiseError('invalid-argument', 'Another virtual clock is in use in this process.', {
      next: 'Call its restore() first, for example after each test.',
    });
  }
  inUse = true;
  const { Date: RealDate, setTimeout, setInterval, clearTimeout, clearInterval } = globalThis;
  const measured = performance.now.bind(performance);
  const timers = new Map<unknown, Timer>();
  let offset = 0;
  let restored = false;
  const now = (): number => RealDate.now() + offset;

  const settingTimer = <F extends typeof setTimeout | typeof setInterval>(set: F, repeats: boolean): F =>
    new Proxy(set, {
      apply(target, self, [task, ms, ...args]: [(...args: unknown[]) => void, number?, ...unknown[]]) {
        const period = Math.max(1, Number(ms) || 1);
        const run = (): void => {
          const timer = timers.get(handle);
          if (timer && repeats) timer.at = now() + period;
          else timers.delete(handle);
          task(...args);
        };
        const handle: unknown = Reflect.apply(target, self, [run, ms]);
        timers.set(handle, { run, period, repeats, at: now() + period });
        return handle;
      },
    });
  const clearingTimer = <F extends typeof clearTimeout>(clear: F): F =>
    new Proxy(clear, {
      apply(target, self, [handle]: [unknown]) {
        timers.delete(handle);
        return Reflect.apply(target, self, [handle]);
      },
    });

  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args, self) => Reflect.construct(target, args.length === 0 ? [now()] : args, self),
    apply: () => new RealDate(now()).toString(),
    get: (target, key, self) => (key === 'now' ? now : Reflect.get(target, key, self)),
  });
  globalThis.setTimeout = settingTimer(setTimeout, false);
  globalThis.setInterval = settingTimer(setInterval, true);
  globalThis.clearTimeout = clearingTimer(clearTimeout);
  globalThis.clearInterval = clearingTimer(clearInterval);
  Object.defineProperty(performance, 'now', { configurable: true, value: () => measured() + offset });

  /** Returns the first timer that is due up to a time. */
  const nextUntil = (end: number): readonly [unknown, Timer] | undefined =>
    [...timers].filter(([, { at }]) => at <= end).sort(([, a], [, b]) => a.at - b.at)[0];

  return {
    now,
    async advance(by) {
      const end = now() + seconds(by) * 1000;
      for (let runs = 0, next = nextUntil(end); next; next = nextUntil(end)) {
        if (++runs > MAX_RUNS) {
          throw new ValiseError(
            'invalid-argument',
            `More than ${MAX_RUNS} timers ran while the time was moved.`,
            {
              next: 'Advance by less at a time, or look for a timer that sets itself again without end.',
            },
          );
        }
        const [handle, { at, run, repeats }] = next;
        offset += Math.max(0, at - now());
        if (!repeats) clearTimeout(handle as NodeJS.Timeout);
        run();
        await settled();
      }
      offset += Math.max(0, end - now());
      await settled();
    },
    restore() {
      if (restored) return;
      restored = true;
      Object.assign(globalThis, { Date: RealDate, setTimeout, setInterval, clearTimeout, clearInterval });
      Reflect.deleteProperty(performance, 'now');
      inUse = false;
    },
  };
}

/** Lets work started by a timer proceed, as far as it needs nothing from outside. */
function settled(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
