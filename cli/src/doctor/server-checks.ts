import type { ClientValise } from 'mcp-valise/client';
import { hasAuthorization, openFor } from '../connection/connect.ts';
import { newerOnly, OLDER_ONLY, refusesNewer } from '../connection/other-era.ts';
import { type CliTarget, nameOfTarget } from '../connection/target.ts';
import type { ConnectOptions } from '../options/options.ts';
import { checkFamilies, type SeenByEra } from './families.ts';
import { type Finding, fail, ok, warn, whatAndFix } from './finding.ts';
import { look, SaidError, type Seen, wantsSignIn } from './probe.ts';

const ERAS = ['legacy', 'modern'] as const;

/** Connects in each era and reports what works. */
export async function checkTarget(target: CliTarget, options: ConnectOptions): Promise<Finding[]> {
  const bare = await lookAround(target, options, undefined);
  if (!bare.errors.some(wantsSignIn)) return report(target, options, bare);
  if (hasAuthorization(options.header)) {
    return [
      fail(
        'sign-in',
        'The server does not take the header Authorization that was given.',
        'Check its value, or leave it out to use what you signed in with.',
      ),
    ];
  }
  return withKept(target, options);
}

/** Checks the target with the stored sign-in, if there is one. */
async function withKept(target: CliTarget, options: ConnectOptions): Promise<Finding[]> {
  const name = nameOfTarget(target);
  const needed = fail(
    'sign-in',
    'The server needs sign-in, and nobody is signed in here.',
    `Sign in once with: valise list ${name} (any valise call to it does that too); then ask the doctor again.`,
  );
  let valise: ClientValise;
  try {
    valise = await openFor(options);
  } catch {
    // The finding about the store explains the failure.
    return [needed];
  }
  try {
    const [kept] = target.kind === 'http' ? await valise.connections.list(target.url).catch(() => []) : [];
    if (!kept?.signedIn) return [needed];
    const around = await lookAround(target, options, valise);
    if (around.errors.some(wantsSignIn)) return [needed];
    return [
      ok('sign-in', `Signed in${kept.issuer === undefined ? '' : ` at ${kept.issuer}`}.`),
      ...report(target, options, around),
    ];
  } finally {
    await valise.close();
  }
}

interface Around {
  readonly seen: SeenByEra;
  readonly failed: Partial<Record<(typeof ERAS)[number], unknown>>;
  readonly errors: readonly unknown[];
  /** The last lines that a command wrote to stderr before it failed. */
  readonly said: readonly string[];
}

async function lookAround(
  target: CliTarget,
  options: ConnectOptions,
  signedIn: ClientValise | undefined,
): Promise<Around> {
  const seen: SeenByEra = {};
  let said: readonly string[] = [];
  const failed: Partial<Record<(typeof ERAS)[number], unknown>> = {};
  for (const era of ERAS) {
    try {
      seen[era] = await look(target, options, era, signedIn);
    } catch (error) {
      failed[era] = error instanceof SaidError ? error.cause : error;
      if (error instanceof SaidError) said = error.lines;
    }
  }
  return { seen, failed, said, errors: Object.values(failed) };
}

function report(target: CliTarget, { sdk }: ConnectOptions, { seen, failed, said }: Around): Finding[] {
  const best = seen.modern ?? seen.legacy;
  // Every server can be asked in the older era, so its failure is the one to report.
  if (!best) {
    const error = newerOnly(failed.legacy, { sdk, era: 'auto' }) ?? failed.legacy;
    return [unreachable(target, error, said)];
  }
  const eras = ERAS.map((era) => {
    const found = seen[era];
    if (found) return ok(`era ${era}`, `The server speaks ${found.version}.`);
    const other = era === 'modern' ? 'legacy' : 'modern';
    const use = `Use --era ${other} with this server, or auto.`;
    // This is no problem: commands detect the era on their own.
    if (refusesNewer(failed[era]))
      return ok(`era ${era}`, `${OLDER_ONLY} With --era auto that is what it is asked in.`);
    return warn(`era ${era}`, ...whatAndFix(failed[era], use));
  });
  return [...eras, ...checkFamilies(seen), ...transport(seen), ...clock(best)];
}

function unreachable(target: CliTarget, error: unknown, said: readonly string[]): Finding {
  const [what, fix] = whatAndFix(
    error,
    target.kind === 'stdio'
      ? 'Run the command by itself, and see what it writes to stderr.'
      : 'Check the URL, and whether the server is up.',
  );
  const stderr = said.length === 0 ? '' : ` It wrote: ${said.join(' / ')}`;
  return fail('target', `${nameOfTarget(target)}: ${what}${stderr}`, fix);
}

function transport({ legacy }: SeenByEra): Finding[] {
  if (!legacy?.session) return [];
  return [ok('resume', 'It has transport sessions, and a restarted client continues in them.')];
}

function clock({ skew }: Seen): Finding[] {
  if (skew === undefined) return [];
  if (Math.abs(skew) <= 60) return [ok('clock', `Its clock and ours differ by ${Math.abs(skew)} s.`)];
  return [
    warn(
      'clock',
      `Its clock is ${Math.abs(skew)} s ${skew > 0 ? 'ahead of' : 'behind'} ours; seals allow 60 s.`,
      'Let both machines set their clocks by NTP.',
    ),
  ];
}
