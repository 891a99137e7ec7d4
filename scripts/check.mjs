#!/usr/bin/env node
// `npm run check [NAME…]`: runs all checks that are not tests, with one line each and a last line: `N passed, M failed`.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build, install } from './prepare.mjs';
import { lastLine } from './results.mjs';
import { root, run, took } from './steps.mjs';

const folder = mkdtempSync(join(tmpdir(), 'valise-check-'));
const node = (path, ...args) => [process.execPath, [`${root}${path}`, ...args]];
const bin = (path, ...args) => node(`node_modules/${path}`, ...args);

/** Returns a package as npm would publish it; the package checks inspect that and not the directory. */
function tarball(pattern) {
  const name = readdirSync(folder).find((file) => pattern.test(file));
  return join(folder, name ?? 'there-is-no-tarball.tgz');
}

const LIBRARY = /^mcp-valise-\d.*\.tgz$/;
const COMMAND = /^mcp-valise-cli-.*\.tgz$/;

/** @type {Record<string, () => [string, string[]]>} */
const CHECKS = {
  types: () => bin('typescript/bin/tsc', '-p', 'tsconfig.json'),
  lint: () => bin('@biomejs/biome/bin/biome', 'check', '--error-on-warnings', '.'),
  pack: () => ['npm', ['pack', '--workspaces', '--ignore-scripts', '--pack-destination', folder]],
  publint: () => bin('publint/src/cli.js', '--strict', tarball(LIBRARY)),
  'publint-cli': () => bin('publint/src/cli.js', '--strict', tarball(COMMAND)),
  // The command line has no types to check, because it is run and not imported.
  attw: () => bin('@arethetypeswrong/cli/dist/index.js', tarball(LIBRARY), '--profile', 'esm-only'),
  knip: () => bin('knip/bin/knip.js'),
  words: () => node('scripts/words.mjs'),
  spelling: () => node('scripts/spelling.mjs'),
  docs: () => node('scripts/docs.mjs'),
  api: () => node('scripts/api-report.mjs', '--check'),
  folders: () => bin('vitest/vitest.mjs', 'run', 'test/house/folders.test.ts'),
  trace: () => node('scripts/trace.mjs', '--missing'),
};

const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !(name in CHECKS));
if (unknown.length > 0) {
  console.error(`Unknown: ${unknown.join(', ')}. The checks are: ${Object.keys(CHECKS).join(', ')}.`);
  process.exit(2);
}

try {
  await install();
  await build();
  const names = Object.keys(CHECKS).filter(
    (name) => asked.length === 0 || asked.includes(name) || needed(name),
  );
  const results = [];
  for (const name of names) results.push(await check(name));
  const passed = results.filter(Boolean).length;
  console.log(lastLine({ passed, failed: results.length - passed }));
  process.exitCode = passed === results.length ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function needed(name) {
  return name === 'pack' && asked.some((other) => /^(publint|attw)/.test(other));
}

async function check(name) {
  const start = performance.now();
  const [command, args] = CHECKS[name]();
  const { code, output } = await run(command, args, { quiet: true });
  console.log(`${code === 0 ? 'ok  ' : 'FAIL'} ${name.padEnd(11)} ${took(start)}`);
  if (code !== 0) console.log(output.trimEnd());
  return code === 0;
}
