import type { Json } from '../json.ts';
import type { Store } from '../store/types.ts';

/** How another process opens the same place: it imports `module` and calls what it exports with `args`. */
export interface Opener {
  /** A file, as a path or a `file:` URL. */
  readonly module: string | URL;
  /** The name of the function to call; it returns a store or a promise of one. `openStore` by default. */
  readonly export?: string;
  readonly args: readonly Json[];
}

/** A place to store in, made anew and empty for each case. */
export interface Place {
  /** Opens the place. Each call gives another handle on the same data (unless `reopens` is false). */
  open(): Store | Promise<Store>;
  /** A URL that `openStore` of Valise takes, or how other processes open the place with a driver of your own. */
  readonly url?: string;
  readonly process?: Opener;
  /** Stops what keeps the data and starts it again, as when a database is restarted under its clients. */
  restart?(): Promise<void>;
  /** Loses the next reply on the way from what keeps the data, and the connection with it. */
  loseReply?(): void;
  /** Called when the case is over and every handle is closed. */
  remove?(): void | Promise<void>;
}

/** Any test runner: vitest, node:test, jest, mocha… The time limit of `it` is ignored by those that know none. */
export interface Runner {
  describe(name: string, body: () => void): unknown;
  it(name: string, body: () => Promise<void>, timeout?: number): unknown;
}

/** What to ask of a driver, and how hard. */
export interface ContractOptions {
  /** The driver's name in the titles. */
  readonly name?: string;
  /** Whether a place can be opened twice and keeps its data when it is closed; true by default. */
  readonly reopens?: boolean;
  /** Whether other processes can open the place; true by default. Needs `url` or `process` in the place. */
  readonly processes?: boolean;
  /** Whether `restart` is there; false by default. */
  readonly restarts?: boolean;
  /** Whether `loseReply` is there. @defaultValue false */
  readonly losesReplies?: boolean;
  /** How much of everything that costs time: 1 (10,000 keys, 1,000 increments, 12 kills) by default; 0.05 is quick. */
  readonly scale?: number;
  /** The longest key a driver is asked to hold; 1,024 bytes by default. */
  readonly maxKeyBytes?: number;
  /** The largest JSON text a driver is asked to hold; 1,000,000 bytes by default. */
  readonly maxValueBytes?: number;
  /** Arguments for the Node processes that are started, such as `['--import', 'tsx']` where modules are TypeScript. */
  readonly execArgv?: readonly string[];
}

/** A number at the scale asked for, but at least `least` (1 by default). */
export type Count = (full: number, least?: number) => number;

/** What a case works with. */
export interface Bench {
  readonly place: Place;
  readonly reopens: boolean;
  readonly execArgv: readonly string[];
  readonly maxKeyBytes: number;
  readonly maxValueBytes: number;
  readonly count: Count;
  /** Opens the place; closed again when the case is over. */
  open(): Promise<Store>;
}

export interface Case {
  /** Says how much of it there is. */
  readonly title: string | ((count: (full: number, least?: number) => string) => string);
  readonly needs?: 'reopens' | 'processes' | 'restarts' | 'losesReplies';
  run(bench: Bench): Promise<void>;
}
