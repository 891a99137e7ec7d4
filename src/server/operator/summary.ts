import { ERROR_CODES, type ValiseErrorCode } from '../../core/error-codes.ts';
import { clock } from '../../store/kit/clock.ts';
import type { FlowCounts } from '../flows/counters.ts';
import type { SessionUsage } from '../sessions/sessions.ts';
import { type ActivityReport, MINUTES, minuteOf, type Tally } from './activity.ts';
import { isAlive } from './reports.ts';

/** A tally over all processes, with what its reason may mean. */
export interface TallyView {
  readonly family: string;
  readonly reason: string;
  readonly total: number;
  /** Counts of the last hour by minute, oldest first. */
  readonly minutes: readonly number[];
  readonly means: string;
}

/** What the processes of a server have seen, together. */
export interface ActivitySummary {
  readonly rejections: readonly TallyView[];
  readonly storeErrors: readonly TallyView[];
  /** How many seals of each key clients have sent back. */
  readonly keys: readonly {
    readonly kid: string;
    readonly phase: 'seals' | 'opens';
    readonly entries: number;
  }[];
  readonly flows: FlowCounts | undefined;
  /** The processes that run now. */
  readonly processes: readonly {
    readonly id: string;
    readonly process: string;
    readonly since: number;
    readonly listeners: number | undefined;
    readonly maxListeners: number | undefined;
    readonly store:
      | { readonly operations: number; readonly mean: number; readonly slowest: number }
      | undefined;
  }[];
  readonly limits: SessionUsage['limits'] | undefined;
}

/** What a reason may mean to an operator. A key may be the end of a longer reason. */
const MEANINGS: Readonly<Record<string, string>> = {
  expired: 'Clients came back too late. If this is frequent, allow more time (`ttl`).',
  'unknown-key':
    'A key that is not on this keyring made the seal. An instance has other keys, or an old key was dropped too early.',
  tampered: 'A seal was changed on its way, or somebody tries to forge one.',
  malformed: 'The text is not a seal. The client is faulty, or somebody tries to forge one.',
  'wrong-subject':
    'A seal of one principal came from another. Two users share a client, or somebody uses a stolen seal.',
  'wrong-binding': 'A seal came with another call or session than it was made for.',
  'wrong-audience':
    'The seal belongs to another server. Two servers share their keys, and a client mixed them up.',
  'wrong-purpose':
    'A seal came back in another place than it was made for. The client is faulty, or somebody tries it.',
  replayed: 'An answer that works once came twice. A client repeats its requests, or somebody replays one.',
  unknown:
    'The client named a session that the store does not have. It was deleted, or the store was replaced.',
  'it belongs to somebody else': 'A client named a session of another principal.',
  revoked: 'A client still uses a session that was revoked.',
  deleted: 'A client still uses a session that was deleted.',
  evicted: 'A principal has more sessions than `sessions.maxPerPrincipal` allows, so the oldest ended.',
  'it has ended': 'A client still uses a session that has ended.',
  'caller-count':
    'One caller has reached its limit. Behind a proxy, set the option `caller` so that clients count one by one.',
  'caller-bytes': 'The state of one caller has reached its limit.',
  'anonymous-count': 'Anonymous callers have reached their share of the limit.',
  'anonymous-bytes': 'The state of anonymous callers has reached its limit.',
  'total-count': 'A limit over all callers is reached. Raise it, or add instances.',
  'total-bytes': 'The state of all callers together has reached its limit.',
  'record-bytes': 'A flow has to remember more than `flows.limits.recordBytes` allows.',
  overloaded: 'More requests than `maxInFlight` came at a time. Add instances, or raise the limit.',
  'message-too-large': 'A client sent a message above `maxMessageBytes`.',
  'not genuine': 'A client named a transport session that this server did not create.',
  'key-reused': 'A client used one idempotency key for two different calls.',
  'still-running': 'A client repeated a call that had not ended.',
  'outcome-unknown':
    'A call was repeated after a crash, and nothing shows whether the first one took effect.',
};

/** Returns what a reason may mean. */
function meaningOf(reason: string): string {
  const known =
    MEANINGS[reason] ??
    MEANINGS[reason.split(': ').at(-1) as string] ??
    MEANINGS[reason.replace(/^waiting-/, '')];
  if (known !== undefined) return known;
  if (Object.hasOwn(ERROR_CODES, reason)) return ERROR_CODES[reason as ValiseErrorCode].join(' ');
  return /\((\w+\.)?max\w+\)/.test(reason)
    ? 'The limit that is named here is reached. Raise it if this is usual traffic.'
    : 'The reason says it all: the client sent something that this server does not accept.';
}

/** Sums up the reports of processes. */
export function summarize(reports: readonly ActivityReport[]): ActivitySummary {
  const alive = reports.filter(isAlive);
  const sealing = alive.at(-1)?.sealing ?? reports.at(-1)?.sealing;
  const keys = new Map<string, number>(sealing === undefined ? [] : [[sealing, 0]]);
  for (const { keys: seen } of reports)
    for (const [kid, count] of Object.entries(seen)) keys.set(kid, (keys.get(kid) ?? 0) + count);
  return {
    rejections: merged(reports.flatMap(({ rejections }) => rejections)),
    storeErrors: merged(reports.flatMap(({ store }) => store?.errors ?? [])),
    keys: [...keys].map(([kid, entries]) => ({ kid, entries, phase: kid === sealing ? 'seals' : 'opens' })),
    flows: summed(reports.map(({ flows }) => flows)),
    processes: alive.map(({ id, process, since, sessions, store }) => ({
      id,
      process,
      since,
      listeners: sessions?.listeners,
      maxListeners: sessions?.limits.maxListeners,
      store: store && { operations: store.operations, mean: store.mean, slowest: store.slowest },
    })),
    limits: (alive.at(-1) ?? reports.at(-1))?.sessions?.limits,
  };
}

function merged(tallies: readonly Tally[]): TallyView[] {
  const start = minuteOf(clock.now()) - MINUTES + 1;
  const views = new Map<
    string,
    { family: string; reason: string; total: number; minutes: number[]; means: string }
  >();
  for (const { family, reason, total, minutes } of tallies) {
    const key = `${family} ${reason}`;
    const view = views.get(key) ?? {
      family,
      reason,
      total: 0,
      minutes: Array.from({ length: MINUTES }, () => 0),
      means: meaningOf(reason),
    };
    views.set(key, view);
    view.total += total;
    for (const [minute, count] of minutes)
      if (minute >= start && minute < start + MINUTES)
        view.minutes[minute - start] = (view.minutes[minute - start] ?? 0) + count;
  }
  return [...views.values()].sort((one, other) => other.total - one.total);
}

function summed(counts: readonly FlowCounts[]): FlowCounts | undefined {
  const [first, ...others] = counts;
  if (!first) return undefined;
  const sum: Record<string, number> = { ...first };
  for (const each of others)
    for (const [name, count] of Object.entries(each)) sum[name] = (sum[name] ?? 0) + count;
  return sum as unknown as FlowCounts;
}
