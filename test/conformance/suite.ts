import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { conformance } from '../../scripts/conformance.mjs';
import { noServices } from '../services.ts';

/** The two generations of the official suite. */
export type Suite = 'conformance' | 'conformance-next';

/** What came of each scenario: the outcome of each of its checks, as `check: STATUS`, sorted. */
export type Outcomes = ReadonlyMap<string, readonly string[]>;

interface Check {
  readonly id: string;
  readonly status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'SKIPPED' | 'INFO';
}

/** Why the suites cannot run here; undefined where they can. Says it aloud. */
export async function whyNot(): Promise<string | undefined> {
  let why: string | undefined;
  if (noServices) why = 'VALISE_NO_SERVICES=1';
  else {
    try {
      await conformance('conformance');
      await conformance('conformance-next');
    } catch (error) {
      why = (error as Error).message;
    }
  }
  if (why !== undefined) process.stderr.write(`SKIPPED: the official conformance suites (${why})\n`);
  return why;
}

/** Runs a suite, and reads what came of it. */
export async function runSuite(suite: Suite, args: readonly string[]): Promise<Outcomes> {
  const [node, program] = await conformance(suite);
  const results = await mkdtemp(join(tmpdir(), 'valise-conformance-'));
  try {
    const child = spawn(node, [program, ...args, '-o', results], {
      cwd: results,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let said = '';
    child.stdout.on('data', (chunk) => (said += chunk));
    child.stderr.on('data', (chunk) => (said += chunk));
    await once(child, 'close');
    const outcomes = await readOutcomes(results);
    if (outcomes.size === 0) throw new Error(`The suite said nothing but: ${said}`);
    return outcomes;
  } finally {
    await rm(results, { recursive: true, force: true });
  }
}

async function readOutcomes(results: string): Promise<Outcomes> {
  const outcomes = new Map<string, string[]>();
  for (const file of await readdir(results, { recursive: true })) {
    if (!file.endsWith('checks.json')) continue;
    const scenario = dirname(file)
      .replace(/^server-/, '')
      .replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, '');
    const checks = JSON.parse(await readFile(join(results, file), 'utf8')) as Check[];
    const told = checks.filter(({ status }) => status !== 'INFO');
    outcomes.set(scenario, [...(outcomes.get(scenario) ?? []), ...told.map(outcome)].sort());
  }
  return new Map([...outcomes].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function outcome({ id, status }: Check): string {
  return `${id}: ${status}`;
}

const TWICE = 2;

/** How a run of a suite is started: the part of the command line that is the same for all of its scenarios. */
export type Run = (args: readonly string[]) => Promise<Outcomes>;

/**
 * The scenarios whose checks came out otherwise in the second run than in the first. Some depend on time, and a busy
 * machine is late: what differs is played again, alone, and must then come out the same twice in a row.
 */
export async function differences(
  first: Outcomes,
  second: Outcomes,
  again: { readonly first: Run; readonly second: Run },
): Promise<Record<string, unknown>> {
  const found: Record<string, unknown> = {};
  for (const scenario of new Set([...first.keys(), ...second.keys()])) {
    let pair = [first.get(scenario), second.get(scenario)];
    let same = isDeepStrictEqual(pair[0], pair[1]) ? TWICE : 0;
    for (let plays = 0; same < TWICE && plays < 5; plays++) {
      console.log(`${scenario} differed, and is played again alone`);
      const alone = ['--scenario', scenario];
      pair = [(await again.first(alone)).get(scenario), (await again.second(alone)).get(scenario)];
      same = isDeepStrictEqual(pair[0], pair[1]) ? same + 1 : 0;
    }
    if (same < TWICE) found[scenario] = pair;
  }
  return found;
}

/** The scenarios with a check that failed, or that warned. */
export function unmet(outcomes: Outcomes): string[] {
  return [...outcomes]
    .filter(([, checks]) => checks.some((check) => /: (FAILURE|WARNING)$/.test(check)))
    .map(([name]) => name);
}

/** The numbers of a run, for people. */
export function summary(outcomes: Outcomes): string {
  const all = [...outcomes.values()].flat();
  const count = (status: string) => all.filter((check) => check.endsWith(`: ${status}`)).length;
  const failed = unmet(outcomes);
  return (
    `${outcomes.size} scenarios, ${count('SUCCESS')} checks passed, ${count('FAILURE')} failed, ` +
    `${count('WARNING')} warned, ${count('SKIPPED')} skipped${failed.length > 0 ? ` (${failed.join(', ')})` : ''}`
  );
}
