import { randomUUID } from 'node:crypto';
import { ValiseError } from '../../core/errors.ts';
import { lazy } from '../../core/lazy.ts';
import { kidOf } from '../../seal/token.ts';
import { clock } from '../../store/kit/clock.ts';
import { ownProcess } from '../../store/kit/process.ts';
import type { ServerContext } from '../context.ts';
import type { FlowCounts } from '../flows/counters.ts';
import type { SealWatch } from '../own-keys.ts';
import type { StoreWatch } from '../request-store.ts';
import type { SessionUsage } from '../sessions/sessions.ts';

/** How often something happened: in total, and by minute since 1970 for the last hour. */
export interface Tally {
  readonly family: string;
  readonly reason: string;
  readonly total: number;
  readonly minutes: readonly (readonly [minute: number, count: number])[];
}

/** What one process of a server has seen. It contains no secrets. */
export interface ActivityReport {
  /** Identifies the Valise that counts. A process may have several. */
  readonly id: string;
  /** The process: its id, and a short name of its host. */
  readonly process: string;
  /** When the report was made, in milliseconds since 1970. */
  readonly at: number;
  /** When the process began to count, in milliseconds since 1970. */
  readonly since: number;
  /** Requests and state that the server refused. */
  readonly rejections: readonly Tally[];
  /** The id of the key that seals, and how many seals of each key clients have sent back. */
  readonly sealing: string;
  readonly keys: Readonly<Record<string, number>>;
  /** Operations on the store. Absent if the server has no store. */
  readonly store?: {
    readonly operations: number;
    /** In milliseconds. */
    readonly mean: number;
    readonly slowest: number;
    readonly errors: readonly Tally[];
  };
  readonly flows: FlowCounts;
  /** Open listeners, and the limits of sessions. Absent if the server has no sessions. */
  readonly sessions?: SessionUsage;
}

/** What {@link Activity} observes. */
export interface ActivitySources {
  readonly context: ServerContext;
  readonly seals: SealWatch;
  readonly store: StoreWatch;
  flows(): FlowCounts;
  sessions(): SessionUsage | undefined;
}

/** How many minutes are counted one by one. */
export const MINUTES = 60;
/** How many different reasons are told apart. Some contain text of a client. */
const MAX_REASONS = 100;
/** How many keys are told apart. A client may name any key. */
const MAX_KEYS = 100;

/** Counts what happens in this process, from {@link Activity.start} on. */
export class Activity {
  readonly #id = lazy(() => randomUUID());
  readonly #sources: ActivitySources;
  readonly #rejections = new Tallies();
  readonly #errors = new Tallies();
  readonly #keys = new Map<string, number>();
  #since = 0;
  #operations = 0;
  #time = 0;
  #slowest = 0;

  constructor(sources: ActivitySources) {
    this.#sources = sources;
  }

  get id(): string {
    return this.#id();
  }

  /** Begins to count. Further calls do nothing. */
  start(): void {
    if (this.#since !== 0) return;
    this.#since = clock.now();
    const { context, seals, store } = this.#sources;
    const { events } = context;
    events.on('rejected', ({ family, reason }) => this.#rejections.add(family, reason));
    events.on('overloaded', () => this.#rejections.add('requests', 'overloaded'));
    events.on('message-too-large', () => this.#rejections.add('requests', 'message-too-large'));
    seals.opened = (token) => {
      const kid = kidOf(token, Number.POSITIVE_INFINITY);
      if (kid !== undefined && (this.#keys.has(kid) || this.#keys.size < MAX_KEYS))
        this.#keys.set(kid, (this.#keys.get(kid) ?? 0) + 1);
    };
    store.done = (milliseconds, error) => {
      this.#operations++;
      this.#time += milliseconds;
      this.#slowest = Math.max(this.#slowest, milliseconds);
      if (error !== undefined)
        this.#errors.add('store', error instanceof ValiseError ? error.code : 'store-failed');
    };
  }

  /** Returns the counts so far. */
  report(): ActivityReport {
    const { context, flows, sessions } = this.#sources;
    const { host, pid } = ownProcess();
    const usage = sessions();
    return {
      id: this.id,
      process: `${pid}@${host}`,
      at: clock.now(),
      since: this.#since,
      rejections: this.#rejections.read(),
      sealing: context.sealer.kid,
      keys: Object.fromEntries(this.#keys),
      ...(context.store && {
        store: {
          operations: this.#operations,
          mean: this.#operations === 0 ? 0 : this.#time / this.#operations,
          slowest: this.#slowest,
          errors: this.#errors.read(),
        },
      }),
      flows: flows(),
      ...(usage && { sessions: usage }),
    };
  }
}

/** Counts by family, reason and minute. */
class Tallies {
  readonly #counts = new Map<
    string,
    { family: string; reason: string; total: number; minutes: Map<number, number> }
  >();

  add(family: string, reason: string): void {
    const key = `${family} ${reason}`;
    const known = this.#counts.get(key);
    if (!known && this.#counts.size >= MAX_REASONS) return;
    const counted = known ?? { family, reason, total: 0, minutes: new Map<number, number>() };
    this.#counts.set(key, counted);
    const now = minuteOf(clock.now());
    counted.total++;
    counted.minutes.set(now, (counted.minutes.get(now) ?? 0) + 1);
    for (const minute of counted.minutes.keys()) if (minute <= now - MINUTES) counted.minutes.delete(minute);
  }

  read(): Tally[] {
    return [...this.#counts.values()].map(({ minutes, ...rest }) => ({ ...rest, minutes: [...minutes] }));
  }
}

export function minuteOf(time: number): number {
  return Math.floor(time / 60_000);
}
