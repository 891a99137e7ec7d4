#!/usr/bin/env node
// `node scripts/compat.mjs [FOLDER…] [--write]`: runs the tests of `compat/*/`, each with the real packages in its lock file
// and with Valise as npm would publish it. Installs only what has changed. `--write` stores the results and the tables
// generated from them; without it, results that differ from the stored ones are a failure. Ends with `N passed, M failed`.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { settle } from './frameworks.mjs';
import { node22 } from './node22.mjs';
import { build, install } from './prepare.mjs';
import { lastLine, readReport } from './results.mjs';
import { must, root, run, say, took } from './steps.mjs';

const CACHE = `${root}.cache/compat`;
const TARBALL = `${CACHE}/mcp-valise.tgz`;

/** Generators of tables from a folder's results. Each takes whether to write, and returns what is stale. */
const TABLES = { servers: settle };

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { write: { type: 'boolean', default: false }, title: { type: 'string', short: 't' } },
});
const folders = readdirSync(`${root}compat`).filter(
  (name) =>
    existsSync(`${root}compat/${name}/package-lock.json`) &&
    (positionals.length === 0 || positionals.includes(name)),
);

try {
  const start = performance.now();
  await install();
  await build();
  mkdirSync(CACHE, { recursive: true });
  await pack();
  const totals = { passed: 0, failed: 0, skipped: 0 };
  for (const folder of folders) {
    const report = await test(folder);
    for (const name of Object.keys(totals)) totals[name] += report[name];
    say(`compat/${folder}: ${lastLine(report)}`);
  }
  say(`in all ${took(start)}`);
  console.log(lastLine(totals));
  process.exitCode = totals.failed > 0 || totals.passed === 0 ? 1 : 0;
} catch (error) {
  say(error.message);
  console.log(lastLine({ passed: 0, failed: 1 }));
  process.exitCode = 1;
}

/** Packs the package as npm would publish it; the name is always the same, so that a lock file could name it. */
async function pack() {
  const { code, output } = await run(
    'npm',
    ['pack', '--json', '--ignore-scripts', '--pack-destination', CACHE],
    { quiet: true },
  );
  if (code !== 0) throw new Error(`npm pack failed:\n${output}`);
  const made = readdirSync(CACHE).find((file) => /^mcp-valise-\d.*\.tgz$/.test(file));
  writeFileSync(TARBALL, readFileSync(join(CACHE, made)));
  rmSync(join(CACHE, made));
}

/**
 * Tests one folder: installs it if necessary, then runs its tests, which learn of a Node 22 and whether to store their
 * results.
 */
async function test(folder) {
  const home = `${root}compat/${folder}`;
  await prepare(folder, home);
  const node = await node22();
  const report = `${CACHE}/${folder}-report.json`;
  rmSync(report, { force: true });
  const args = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  if (values.title !== undefined) args.push('-t', values.title);
  const { code } = await run(process.execPath, ['node_modules/vitest/vitest.mjs', 'run', ...args], {
    cwd: home,
    env: {
      ...process.env,
      ...(node && { COMPAT_NODE22: node }),
      ...(values.write && { COMPAT_WRITE: '1' }),
    },
  });
  const read = readReport(report) ?? { passed: 0, failed: 1, skipped: 0 };
  const failed = code !== 0 ? Math.max(read.failed, 1) : read.failed;
  // Tables are generated only from complete runs that passed.
  const stale = failed === 0 && values.title === undefined ? (TABLES[folder]?.(values.write) ?? []) : [];
  for (const sentence of stale) say(sentence);
  return { ...read, failed: failed + stale.length };
}

/** Installs the packages in the lock file and the Valise package, each only if it has changed since the last time. */
async function prepare(folder, home) {
  const stampFile = `${CACHE}/${folder}.json`;
  const before = existsSync(stampFile) ? JSON.parse(readFileSync(stampFile, 'utf8')) : {};
  const { dependencies, peerDependencies } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
  const stamp = {
    lock: digest(
      readFileSync(`${home}/package-lock.json`),
      JSON.stringify([dependencies, peerDependencies, process.version]),
    ),
    package: digest(readFileSync(TARBALL)),
  };
  const valise = `${home}/node_modules/mcp-valise`;
  if (before.lock !== stamp.lock || !existsSync(valise)) {
    rmSync(stampFile, { force: true });
    const options = ['--no-save', '--no-audit', '--no-fund', '--prefer-offline'];
    await must(`compat/${folder}: npm install`, 'npm', ['install', ...options, TARBALL], { cwd: home });
  } else if (before.package !== stamp.package) {
    rmSync(valise, { recursive: true });
    mkdirSync(valise);
    await must(`compat/${folder}: unpack`, 'tar', ['-xzf', TARBALL, '-C', valise, '--strip-components=1']);
  }
  writeFileSync(stampFile, JSON.stringify(stamp));
}

function digest(...parts) {
  return parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest('hex');
}
