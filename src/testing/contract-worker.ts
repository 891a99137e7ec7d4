import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import type { Lease, Store } from '../store/types.ts';
import { increment } from './contract-case.ts';
import type { Job, Report } from './contract-processes.ts';

// The program of the other processes in the contract. It opens the place and runs one job after another.

const say = (report: Report) => process.send?.(report);
// Without its parent, nobody would end this process.
process.on('disconnect', () => process.exit());

const { module, name, args } = JSON.parse(process.argv[2] as string) as {
  module: string;
  name: string;
  args: unknown[];
};
try {
  const exported = (await import(module.startsWith('file:') ? module : pathToFileURL(module).href)) as Record<
    string,
    unknown
  >;
  const open = exported[name];
  if (typeof open !== 'function') throw new Error(`${module} exports no function ${name}`);
  const store = (await open(...args)) as Store;
  process.on('message', (job: Job) => {
    perform(store, job).then(
      (result) => say({ is: 'done', result }),
      (error) => say({ is: 'failed', why: String((error as Error)?.stack ?? error) }),
    );
  });
  say({ is: 'open' });
} catch (error) {
  say({ is: 'failed', why: String((error as Error)?.stack ?? error) });
}

async function perform(store: Store, job: Job): Promise<number> {
  switch (job.job) {
    case 'increment':
      await Promise.all(
        Array.from({ length: job.writers }, async () => {
          for (let done = 0; done < job.times; done++) await increment(store, job.key);
        }),
      );
      return job.times;
    case 'guarded-increment':
      return guardedIncrement(store, job);
    case 'hold':
      return (await waitForLease(store, job.lease, job.ttl)).fence;
    case 'rewrite':
      return rewrite(store, job);
  }
}

/** Reads, lets others run, and writes unconditionally, which is correct only if the lease keeps all others out. */
async function guardedIncrement(
  store: Store,
  { lease, key, times }: Extract<Job, { job: 'guarded-increment' }>,
): Promise<number> {
  let last = 0;
  for (let done = 0; done < times; done++) {
    const held = await waitForLease(store, lease, 60);
    if (held.fence <= last) throw new Error(`fence ${held.fence} after ${last}`);
    last = held.fence;
    const before = ((await store.get(key))?.value as number | undefined) ?? 0;
    await pause(1);
    await store.put(key, before + 1);
    await held.release();
  }
  return last;
}

async function waitForLease(store: Store, key: string, ttl: number): Promise<Lease> {
  for (;;) {
    const lease = await store.lease(key, ttl);
    if (lease) return lease;
    await pause(2 + Math.random() * 8);
  }
}

/** Writes values that make a torn write obvious (one repeated letter), as fast as possible, until the process is killed. */
async function rewrite(store: Store, { key, bytes }: Extract<Job, { job: 'rewrite' }>): Promise<number> {
  let number = ((await store.get(key))?.value as { number: number } | undefined)?.number ?? 0;
  for (;;) {
    number++;
    await store.put(key, { number, text: String.fromCharCode(97 + (number % 26)).repeat(bytes) });
    say({ is: 'written', number });
  }
}
