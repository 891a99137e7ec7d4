import type { JsonObject } from '../../core/json.ts';
import { sha256 } from '../../core/sha256.ts';
import { clock } from '../../store/kit/clock.ts';
import { collection, type Schema } from '../../store/kit/collection.ts';
import type { Store } from '../../store/types.ts';
import type { Activity, ActivityReport } from './activity.ts';

/** Where the processes of all servers of a store put their reports. */
const PREFIX = 'operator/';
/** How long the report of a process is kept after its last one, in seconds. Rejections are shown for an hour. */
const TTL = 3600;
/** How often a process looks whether its report has changed, in milliseconds. */
const LOOK = 2000;
/** How often a process writes a report that has not changed, in milliseconds. */
const BEAT = 15_000;
/** How long after its last report a process counts as running, in milliseconds. */
const ALIVE = 3 * BEAT;
/** How many reports are read. */
const MOST = 500;

const REPORTS: Schema<ActivityReport> = {
  kind: 'report of a server process',
  version: 1,
  read: (record) =>
    typeof record['process'] === 'string' && Array.isArray(record['rejections'])
      ? (record as unknown as ActivityReport)
      : undefined,
  write: (report) => report as unknown as JsonObject,
};

/**
 * Records what this process sees in the store, so that a console that runs elsewhere can show it. Returns a function that
 * writes the last report and stops.
 */
export function recordActivity(store: Store, name: string, activity: Activity): () => Promise<void> {
  activity.start();
  const reports = collection(store, `${PREFIX}${sha256(name).slice(0, 16)}/`, REPORTS);
  let before = '';
  let writtenAt = 0;
  let writing: Promise<unknown> = Promise.resolve();
  const write = (report: ActivityReport): void => {
    // Nothing depends on the report, so a store that cannot write it is no reason to fail.
    writing = writing.then(() => reports.put(activity.id, report, { ttl: TTL })).catch(() => undefined);
  };
  const look = (): void => {
    const report = activity.report();
    // The report itself is an operation on the store, so operations alone are not news.
    const now = JSON.stringify([
      report.rejections,
      report.keys,
      report.store?.errors,
      report.flows,
      report.sessions,
    ]);
    if (now === before && report.at - writtenAt < BEAT) return;
    before = now;
    writtenAt = report.at;
    write(report);
  };
  look();
  const stop = clock.every(LOOK, look);
  return async () => {
    stop();
    write({ ...activity.report(), at: 0 });
    await writing;
  };
}

/** Returns the reports in a store: of the server with this name, or of all servers. */
export async function readReports(store: Store, name?: string): Promise<ActivityReport[]> {
  const under = name === undefined ? '' : `${sha256(name).slice(0, 16)}/`;
  const found: ActivityReport[] = [];
  for await (const page of collection(store, PREFIX, REPORTS).pages(under)) {
    found.push(...page.flatMap(([, { value }]) => (value ? [value] : [])));
    if (found.length >= MOST) break;
  }
  return found;
}

/** Whether the process of a report was running a moment ago. A process that closes its Valise says so. */
export function isAlive({ at }: ActivityReport): boolean {
  return clock.now() - at < ALIVE;
}
