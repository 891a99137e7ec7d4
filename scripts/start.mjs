#!/usr/bin/env node
// `npm start`: installs and builds if needed, then shows what Valise does: `valise tour`, or what there is before it.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { build, install } from './prepare.mjs';
import { root, say } from './steps.mjs';

try {
  await install();
  await build();
} catch (error) {
  say(error.message);
  process.exit(1);
}

const launcher = `${root}bin/valise.js`;
const help = existsSync(`${root}dist/cli/main.js`)
  ? spawnSync(process.execPath, [launcher, '--help'], { encoding: 'utf8' }).stdout
  : '';
const hasTour = /^\s+tour\b/m.test(help);
const [script, args] = hasTour
  ? [launcher, ['tour', ...process.argv.slice(2)]]
  : [`${root}scripts/demo.mjs`, []];
const { status } = spawnSync(process.execPath, [script, ...args], { cwd: root, stdio: 'inherit' });
process.exitCode = status ?? 1;
