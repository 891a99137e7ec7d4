import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Bench, Opener, Place } from './contract-case.ts';

/** A job for a worker. */
export type Job =
  | { readonly job: 'increment'; readonly key: string; readonly times: number; readonly writers: number }
  | {
      readonly job: 'guarded-increment';
      readonly lease: string;
      readonly key: string;
      readonly times: number;
    }
  | { readonly job: 'hold'; readonly lease: string; readonly ttl: number }
  | { readonly job: 'rewrite'; readonly key: string; readonly bytes: number };

/** A message from a worker. */
export type Report =
  | { readonly is: 'open' }
  | { readonly is: 'written'; readonly number: number }
  | { readonly is: 'done'; readonly result: number }
  | { readonly is: 'failed'; readonly why: string };

/** Another process that has opened the place. */
export interface Worker {
  /** Runs a job to its end. Returns its result. */
  run(job: Job): Promise<number>;
  /** Starts a job that continues until the process is killed. `heard` receives the number of each confirmed write. */
  begin(job: Job, heard: (number: number) => void): void;
  /** Ends the process with SIGKILL, without a chance to clean up. */
  kill(): Promise<void>;
}

// The worker is the file next to this one, `.ts` in the sources and `.js` when built.
const extension = extname(fileURLToPath(import.meta.url));
const workerFile = fileURLToPath(new URL(`./contract-worker${extension}`, import.meta.url));
const ownOpener = new URL(`../store/index${extension}`, import.meta.url);

/** Starts processes that have the place open, and ends all of them afterwards. */
export async function withWorkers<Result>(
  bench: Bench,
  count: number,
  use: (workers: readonly Worker[]) => Promise<Result>,
): Promise<Result> {
  const children = Array.from({ length: count }, () => start(bench));
  try {
    await Promise.all(children.map((child) => nextReport(child, 'open')));
    return await use(children.map(asWorker));
  } finally {
    await Promise.all(children.map(kill));
  }
}

function openerOf({ url, process }: Place): Opener {
  if (process) return process;
  assert.ok(url !== undefined, 'a place that other processes can open has `url` or `process`');
  return { module: ownOpener, args: [url] };
}

function start({ place, execArgv }: Bench): ChildProcess {
  const { module, export: name = 'openStore', args } = openerOf(place);
  const opener = JSON.stringify({ module: String(module), name, args });
  return fork(workerFile, [opener], {
    execArgv: [...execArgv],
    serialization: 'json',
    stdio: ['ignore', 2, 2, 'ipc'],
  });
}

function asWorker(child: ChildProcess): Worker {
  return {
    run: async (job) => {
      child.send(job);
      return (await nextReport(child, 'done')).result;
    },
    begin: (job, heard) => {
      child.on('message', (report: Report) => {
        if (report.is === 'written') heard(report.number);
      });
      child.send(job);
    },
    kill: () => kill(child),
  };
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

function nextReport<Is extends Report['is']>(
  child: ChildProcess,
  is: Is,
): Promise<Extract<Report, { is: Is }>> {
  return new Promise((resolve, reject) => {
    const hear = (report: Report) => {
      if (report.is === 'written') return;
      stop();
      if (report.is === is) resolve(report as Extract<Report, { is: Is }>);
      else
        reject(
          new Error(report.is === 'failed' ? report.why : `the worker said ${report.is} instead of ${is}`),
        );
    };
    const exit = (code: number | null, signal: string | null) => {
      stop();
      reject(new Error(`the worker ended with ${signal ?? code} before it was ${is}`));
    };
    const stop = () => child.off('message', hear).off('exit', exit);
    child.on('message', hear).on('exit', exit);
  });
}
