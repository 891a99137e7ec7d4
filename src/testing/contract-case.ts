import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import type { Json } from '../core/json.ts';
import type { Store } from '../store/types.ts';

/** How another process opens the same place: it imports `module` and calls the exported function with `args`. */
export interface Opener {
  /** A file, as a path or a `file:` URL. */
  readonly module: string | URL;
  /** The name of the function to call, which returns a store or a promise of one. `openStore` by default. */
  readonly export?: string;
  readonly args: readonly Json[];
}

/** A storage location, created empty for each case. */
export interface Place {
  /** Opens the place. Each call returns another handle on the same data (unless `reopens` is false). */
  open(): Store | Promise<Store>;
  /** A URL for Valise's `openStore`, or how other processes open the place with your own driver. */
  readonly url?: string;
  readonly process?: Opener;
  /** Stops and restarts the backend, like a database that restarts while clients are connected. */
  restart?(): Promise<void>;
  /** Drops the next reply from the backend, together with the connection. */
  loseReply?(): void;
  /** Called when the case is over and every handle is closed. */
  remove?(): void | Promise<void>;
}

/** Any test runner: vitest, node:test, jest, mocha… Runners without time limits ignore the one of `it`. */
export interface Runner {
  describe(name: string, body: () => void): unknown;
  it(name: string, body: () => Promise<void>, timeout?: number): unknown;
}

/** Which parts of the contract to test, and how thoroughly. */
export interface ContractOptions {
  /** The name of the driver in the titles. */
  readonly name?: string;
  /** Whether a place can be opened twice and keeps its data when it is closed; true by default. */
  readonly reopens?: boolean;
  /** Whether other processes can open the place; true by default. Requires `url` or `process` in the place. */
  readonly processes?: boolean;
  /** Whether the place has `restart`; false by default. */
  readonly restarts?: boolean;
  /** Whether the place has `loseReply`. @defaultValue false */
  readonly losesReplies?: boolean;
  /** The scale of slow cases: 1 (10,000 keys, 1,000 increments, 12 kills) by default; 0.05 is quick. */
  readonly scale?: number;
  /** The longest key to test; 1,024 bytes by default. */
  readonly maxKeyBytes?: number;
  /** The largest JSON text to test; 1,000,000 bytes by default. */
  readonly maxValueBytes?: number;
  /** Arguments for the Node processes that are started, such as `['--import', 'tsx']` if modules are TypeScript. */
  readonly execArgv?: readonly string[];
}

/** Scales a number, but returns at least `least` (1 by default). */
export type Count = (full: number, least?: number) => number;

/** The environment of a case. */
export interface Bench {
  readonly place: Place;
  readonly reopens: boolean;
  readonly execArgv: readonly string[];
  readonly maxKeyBytes: number;
  readonly maxValueBytes: number;
  readonly count: Count;
  /** Opens the place. The handle is closed when the case is over. */
  open(): Promise<Store>;
}

export interface Case {
  /** The title, or a function that includes the scaled numbers in it. */
  readonly title: string | ((count: (full: number, least?: number) => string) => string);
  readonly needs?: 'reopens' | 'processes' | 'restarts' | 'losesReplies';
  run(bench: Bench): Promise<void>;
}

/** Polls until a condition holds. Fails if it never does. */
export async function until(holds: () => Promise<boolean>, seconds = 10): Promise<void> {
  const end = performance.now() + seconds * 1000;
  while (!(await holds())) {
    assert.ok(performance.now() < end, `not so after ${seconds} s: ${holds.toString()}`);
    await pause(2 + Math.random() * 8);
  }
}

/** Returns `count` handles on one place, or the same handle several times if a place opens only once. */
export async function sharesHandles({ open, reopens }: Bench, count: number): Promise<Store[]> {
  if (reopens) return Promise.all(Array.from({ length: count }, open));
  return new Array<Store>(count).fill(await open());
}

/** Adds one to the number under `key`, and retries until nobody else was faster. */
export async function increment(store: Store, key: string): Promise<void> {
  for (;;) {
    const entry = await store.get(key);
    const condition = entry ? { ifVersion: entry.version } : { ifAbsent: true };
    if ((await store.put(key, ((entry?.value as number) ?? 0) + 1, condition)) !== undefined) return;
  }
}
