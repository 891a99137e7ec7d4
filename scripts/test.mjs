#!/usr/bin/env node
// `npm test`: from a fresh clone to one line `N passed, M failed`. Installs and builds if necessary, runs every test with
// its own Redis and PostgreSQL (test/global-setup.ts starts and stops them), then runs some folders on Node 22 too.
import { mkdirSync, rmSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { ensure } from './debian.mjs';
import { node22 } from './node22.mjs';
import { build, install } from './prepare.mjs';
import { FULL_REPORT, lastLine, readReport } from './results.mjs';
import { root, run, say, took } from './steps.mjs';

const HELP = `npm test [-- OPTIONS] [FILTERS…]

  FILTERS          parts of test file names, as vitest takes them: test/store, jar
  --filter TEXT    the same
  -t PATTERN       only tests whose title matches
  --no-services    without Redis, PostgreSQL and other programs; says what it skipped
  --no-node22      without the second run of stores, seals, link and servers on Node 22
  --soak           the long form of the fuzz, kill and load tests (npm run test:soak)`;

/** @type {import('./results.mjs').Report} */
const NOTHING = { tests: [], files: [], broken: [], passed: 0, failed: 0, skipped: 0 };

const TWICE = ['test/store', 'test/seal', 'test/edge', 'test/server'];
/** Enables Node 24's implementation of async contexts, which differs from that of Node 20. */
const NEXT_CONTEXTS = '--experimental-async-context-frame';

const { values, positionals } = readArguments();
const filters = [...positionals, ...values.filter];
const partial = filters.length > 0 || values.title !== undefined;

if (values.help) console.log(HELP);
else await main().catch(giveUp);

function readArguments() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        filter: { type: 'string', multiple: true, default: [] },
        title: { type: 'string', short: 't' },
        'no-services': { type: 'boolean', default: false },
        'no-node22': { type: 'boolean', default: false },
        soak: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
  } catch (error) {
    console.error(`${error.message}\n\n${HELP}`);
    process.exit(2);
  }
}

async function main() {
  const start = performance.now();
  await install();
  await build();
  const env = services();
  const title = values.title === undefined ? [] : ['-t', values.title];
  const report = partial ? `${root}.cache/test-results-partial.json` : FULL_REPORT;
  const reports = [
    await vitest(
      partial ? 'some tests' : 'all tests',
      process.execPath,
      ['--typecheck', ...filters, ...title],
      report,
      env,
    ),
  ];
  if (!partial && !values['no-node22']) reports.push(await onNode22(env));
  finish(reports.filter(Boolean), start);
}

/** Makes sure that the programs of Redis and PostgreSQL are installed; the test run starts and stops them itself. */
function services() {
  if (values['no-services']) {
    say('--no-services: tests that need Redis, PostgreSQL or a program that is not here are skipped');
    return { VALISE_NO_SERVICES: '1' };
  }
  if (!partial) ensure();
  return {};
}

async function onNode22(env) {
  const binary = await node22();
  if (!binary) {
    say(`npm has no Node 22 for ${process.platform} ${process.arch}: the second run is skipped`);
    return undefined;
  }
  const title = 'stores, seals, link and servers on Node 22';
  const options = `${process.env['NODE_OPTIONS'] ?? ''} ${NEXT_CONTEXTS}`.trim();
  const report = `${root}.cache/test-results-node22.json`;
  return vitest(title, binary, TWICE, report, { ...env, NODE_OPTIONS: options });
}

/** Runs vitest once and reads its report. Errors outside any test appear only in the exit code and count as one failure. */
async function vitest(title, node, args, path, env) {
  say(`${title} …`);
  mkdirSync(`${root}.cache`, { recursive: true });
  rmSync(path, { force: true });
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${path}`];
  const soak = values.soak && node === process.execPath ? { VALISE_SOAK: '1' } : {};
  const { code } = await run(node, [`${root}node_modules/vitest/vitest.mjs`, 'run', ...args, ...reporters], {
    env: { ...process.env, ...env, ...soak },
  });
  const report = readReport(path) ?? NOTHING;
  return { title, ...report, failed: code === 0 ? report.failed : Math.max(report.failed, 1) };
}

/** Reports a failure before any test could run. */
function giveUp(error) {
  say(error.message);
  console.log(lastLine({ passed: 0, failed: 1 }));
  process.exitCode = 1;
}

function finish(reports, start) {
  const slowest = reports.flatMap(({ files }) => files).sort((a, b) => b.ms - a.ms);
  say('slowest files:');
  for (const { file, ms } of slowest.slice(0, 8)) say(`  ${(ms / 1000).toFixed(1).padStart(6)} s  ${file}`);
  if (values.title === undefined) reports.forEach(tellSkipped);
  for (const { title, ...counts } of reports) say(`${title}: ${lastLine(counts)}`);
  say(`in all ${took(start)}`);
  const sum = (key) => reports.reduce((total, report) => total + report[key], 0);
  const total = { passed: sum('passed'), failed: sum('failed'), skipped: sum('skipped') };
  console.log(lastLine(total));
  process.exitCode = total.failed > 0 || total.passed === 0 ? 1 : 0;
}

/** Reports skipped tests, so that nothing is left out silently. */
function tellSkipped({ title, tests }) {
  const skipped = tests.filter(({ status }) => status !== 'passed' && status !== 'failed');
  for (const file of new Set(skipped.map((test) => test.file))) {
    const own = skipped.filter((test) => test.file === file);
    const why = new Set(own.map(({ skipReason }) => skipReason ?? 'no reason given'));
    say(
      `skipped in ${file} (${title}): ${own.length} (${[...why].join('; ')}), the first is "${own[0].title}"`,
    );
  }
}
