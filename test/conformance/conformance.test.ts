import { generateKey } from 'mcp-valise/seal';
import { createValise } from 'mcp-valise/server';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { because } from '../skip.ts';
import { openDesk } from './desk.ts';
import { serveFixture } from './serve.ts';
import { differences, type Outcomes, runSuite, type Suite, summary, unmet, whyNot } from './suite.ts';

const why = await whyNot();
const soak = process.env['VALISE_SOAK'] === '1';
const TIMEOUT = 300_000;

interface Runs {
  readonly suite: Suite;
  readonly sdk: 'v1' | 'v2';
  /** Which of the suite's scenarios, by its own names for them; all of them unless told. */
  readonly part?: 'all' | 'core' | 'draft';
  /** Only scenarios of this revision; without it each scenario is of the revision that it was made for. */
  readonly revision?: string;
  readonly long?: true;
}

const SERVERS: readonly Runs[] = [
  { suite: 'conformance', sdk: 'v1' },
  { suite: 'conformance', sdk: 'v2' },
  { suite: 'conformance-next', sdk: 'v1', revision: '2025-11-25' },
  { suite: 'conformance-next', sdk: 'v2', revision: '2025-11-25' },
  { suite: 'conformance-next', sdk: 'v2', revision: '2026-07-28' },
];
const CLIENTS: readonly Runs[] = [
  { suite: 'conformance', sdk: 'v1', part: 'core' },
  { suite: 'conformance', sdk: 'v2', part: 'core' },
  { suite: 'conformance-next', sdk: 'v2', part: 'draft' },
  { suite: 'conformance', sdk: 'v1', long: true },
  { suite: 'conformance-next', sdk: 'v1', revision: '2025-11-25', long: true },
  { suite: 'conformance', sdk: 'v2', long: true },
  { suite: 'conformance-next', sdk: 'v2', long: true },
  { suite: 'conformance-next', sdk: 'v2', revision: '2026-07-28', long: true },
];

const titleOf = ({ suite, sdk, part = 'all', revision }: Runs) =>
  [`${suite === 'conformance' ? '0.1.16' : '0.2.0-alpha.12'} (${part}) on ${sdk}`, revision]
    .filter(Boolean)
    .join(', ');
const versionOf = ({ revision }: Runs) => (revision ? ['--spec-version', revision] : []);

/** A server with all of Valise. */
const everything = () =>
  createValise({ name: 'conformance', keys: generateKey(), store: 'memory:', sessions: {} });

async function playServer(
  runs: Runs,
  which: readonly string[],
  installed: boolean,
  rounds?: 'flow',
): Promise<Outcomes> {
  const served = await serveFixture({ sdk: runs.sdk, valise: installed ? everything() : undefined, rounds });
  try {
    expect((await initialize(served.url)).includes('dev.valise/')).toBe(installed);
    return await runSuite(runs.suite, ['server', '--url', served.url, ...which, ...versionOf(runs)]);
  } finally {
    await served.close();
  }
}

async function playClient(runs: Runs, which: readonly string[], installed: boolean): Promise<Outcomes> {
  const desk = await openDesk({ sdk: runs.sdk, installed });
  try {
    return await runSuite(runs.suite, ['client', '--command', desk.command, ...which, ...versionOf(runs)]);
  } finally {
    await desk.close();
  }
}

/** What a server says about itself, as text. */
async function initialize(url: string): Promise<string> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
    }),
  });
  return response.text();
}

describe.skipIf(why)('the official conformance suites', because(why ?? ''), () => {
  // The SDKs warn of what some scenarios do on purpose.
  beforeAll(() => void vi.spyOn(console, 'warn').mockImplementation(() => {}));

  for (const [role, all, play] of [
    ['server', SERVERS, playServer],
    ['client', CLIENTS, playClient],
  ] as const) {
    for (const runs of all) {
      const title = `${role}, ${titleOf(runs)}: every check comes out with Valise as without`;
      it.skipIf(runs.long && !soak)(
        runs.long ? `${title} (VALISE_SOAK=1)` : title,
        { timeout: TIMEOUT, ...(!why && because('runs in npm run test:soak')) },
        async () => {
          const suite = ['--suite', runs.part ?? 'all'];
          const stock = await play(runs, suite, false);
          const ours = await play(runs, suite, true);
          console.log(`${role}, ${titleOf(runs)}: stock ${summary(stock)}; with Valise ${summary(ours)}`);
          const again = {
            first: (which: readonly string[]) => play(runs, which, false),
            second: (which: readonly string[]) => play(runs, which, true),
          };
          expect(await differences(stock, ours, again)).toEqual({});
        },
      );
    }
  }

  it('[R-08] [R-10] valise.flow passes every scenario of rounds, including the altered context', {
    timeout: TIMEOUT,
  }, async () => {
    const runs: Runs = { suite: 'conformance-next', sdk: 'v2', revision: '2026-07-28' };
    const outcomes = await playServer(runs, ['--suite', 'all'], true, 'flow');
    console.log(`server with valise.flow: ${summary(outcomes)}`);
    expect(unmet(outcomes)).toEqual([]);
    const rounds = [...outcomes.keys()].filter((scenario) => scenario.startsWith('input-required-result-'));
    expect(rounds).toHaveLength(14);
    expect(outcomes.get('input-required-result-tampered-state')).toContain(
      'sep-2322-reject-tampered-state: SUCCESS',
    );
  });

  it('[R-02] [R-03] [R-08] A client with Valise echoes the context of a round byte by byte', {
    timeout: TIMEOUT,
  }, async () => {
    const scenario = 'sep-2322-client-request-state';
    const outcomes = await playClient(
      { suite: 'conformance-next', sdk: 'v2' },
      ['--scenario', scenario],
      true,
    );
    expect(outcomes.get(scenario)).toEqual([
      'sep-2322-client-jsonrpc-id-different: SUCCESS',
      'sep-2322-client-no-state-omitted: SUCCESS',
      'sep-2322-client-parallel-isolation: SUCCESS',
      'sep-2322-client-request-state-echoed: SUCCESS',
      'sep-2322-default-result-type-complete: SUCCESS',
    ]);
  });
});
