import { inspect } from 'node:util';
import { type Random, randomOf } from './random.ts';

const soak = process.env['VALISE_SOAK'] === '1';
/** `VALISE_FUZZ_SCALE=0.1` runs a tenth of the cases. */
const scale = Number(process.env['VALISE_FUZZ_SCALE'] ?? 1);
/** `VALISE_FUZZ_SEED=123` repeats a run; `VALISE_FUZZ_SEED=123:45` repeats its case 45 alone. */
const [seed = 0, only] = (process.env['VALISE_FUZZ_SEED'] || String(Math.floor(Math.random() * 2 ** 31)))
  .split(':')
  .map(Number);
const PROGRESS = 5000;
/** Longer than anything takes; what has not ended by then hangs. */
const HANG = 30_000;

export interface Plan {
  readonly name: string;
  /** How many cases `npm test` runs, and how many `npm run test:soak` does. */
  readonly short: number;
  readonly soak: number;
  /** How many cases run at a time; 1 by default. */
  readonly atOnce?: number;
  /** The least share of cases that must say that they {@link Case.reached} what the plan is about, from 0 to 1. */
  readonly reach?: number;
  /** What reaching is; "reached a handler" by default. */
  readonly reaching?: string;
}

/** One case, and what it tells about itself. */
export interface Case {
  readonly at: number;
  readonly random: Random;
  /** Random numbers of the case that began this batch of `size` cases, for what they share. */
  batch(size: number): { readonly at: number; readonly random: Random };
  /** Says what the input is, before it is used; a failure shows it. */
  input(value: unknown): void;
  /** Counts an outcome, for the summary. */
  count(outcome: string): void;
  /** The case did what the plan is about: it reached a handler. */
  reached(): void;
}

/**
 * Runs the cases of a plan. Throws at the first that fails, hangs, or leaves an error that nobody handles, with its input and the seed that
 * repeats it. Tells the seed at the start, progress every few seconds, and the outcomes at the end.
 */
export async function fuzz(plan: Plan, run: (one: Case) => void | Promise<void>): Promise<void> {
  const { name, atOnce = 1, reach = 0, reaching = 'reached a handler' } = plan;
  const total = only === undefined ? Math.max(1, Math.round((soak ? plan.soak : plan.short) * scale)) : 1;
  const say = (line: string) => process.stderr.write(`fuzz ${name}: ${line}\n`);
  say(`${total} cases, VALISE_FUZZ_SEED=${seed}`);
  const start = performance.now();
  const outcomes = new Map<string, number>();
  const running = new Map<number, unknown>();
  let started = 0;
  let done = 0;
  let reached = 0;
  let told = start;
  let failure: Error | undefined;
  const fail = (what: string, cause: unknown, inputs: ReadonlyMap<number, unknown>): void => {
    if (failure) return;
    const shown = [...inputs].map(([at, input]) => `case ${at}: ${show(input)}`).join('\n');
    const again = [...inputs.keys()].map((at) => `VALISE_FUZZ_SEED=${seed}:${at}`).join(' or ');
    failure = new Error(`${name} ${what}: ${show(cause)}\n${shown}\nRepeat with ${again}.`, { cause });
  };
  const unhandled = (error: unknown) => fail('left an unhandled error', error, new Map(running));
  process.on('unhandledRejection', unhandled);
  process.on('uncaughtException', unhandled);

  const work = async (): Promise<void> => {
    while (started < total && !failure) {
      const at = only === undefined ? started : only;
      started++;
      running.set(at, undefined);
      let hit = false;
      try {
        const ran = run({
          at,
          random: randomOf(seed, at),
          batch: (size) => ({ at: at - (at % size), random: randomOf(seed, -1 - at + (at % size)) }),
          input: (value) => void running.set(at, value),
          count: (outcome) => void outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1),
          reached: () => {
            hit = true;
          },
        });
        // What is synchronous stays so: a million promises take longer than a million tokens.
        if (ran) await within(ran);
      } catch (error) {
        fail('failed', error, new Map([[at, running.get(at)]]));
      }
      running.delete(at);
      done++;
      if (hit) reached++;
      if (performance.now() - told > PROGRESS) {
        told = performance.now();
        const rate = Math.round((done * 1000) / (told - start));
        say(`${done} of ${total}, ${rate}/s`);
        await new Promise(setImmediate);
      }
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(atOnce, total) }, work));
    // What a case has left behind comes out now.
    await new Promise(setImmediate);
    await new Promise(setImmediate);
  } finally {
    process.off('unhandledRejection', unhandled);
    process.off('uncaughtException', unhandled);
  }
  const seconds = (performance.now() - start) / 1000;
  const summary = [...outcomes].sort(([, a], [, b]) => b - a).map(([outcome, n]) => `${outcome} ${n}`);
  const share = plan.reach === undefined ? '' : `, ${reached} ${reaching}`;
  say(
    `${done} cases in ${seconds.toFixed(1)} s (${Math.round(done / seconds)}/s)${share}; ${summary.join(', ')}`,
  );
  if (failure) throw failure;
  if (only === undefined && reached < done * reach)
    throw new Error(`${name}: only ${reached} of ${done} cases ${reaching}.`);
}

/** An error says as much as its stack; everything else is shown in full, so that it can be pasted into a test. */
function show(value: unknown): string {
  if (value instanceof Error) return value.stack ?? value.message;
  if (typeof value === 'string') return JSON.stringify(value);
  return inspect(value, { depth: 20, maxStringLength: 20_000, breakLength: 110 });
}

async function within(work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`It hangs: no end in ${HANG / 1000} s.`)), HANG);
  });
  try {
    await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
