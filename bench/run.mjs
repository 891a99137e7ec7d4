#!/usr/bin/env node
// `npm run bench -- NAME [--json]`: installs missing peers, then runs bench/NAME.mjs against the built package.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build, install } from '../scripts/prepare.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const names = readdirSync(here)
  .filter((file) => file.endsWith('.mjs') && !['run.mjs', 'measure.mjs'].includes(file))
  .map((file) => file.slice(0, -4))
  .sort();
const [name, ...rest] = process.argv.slice(2);
if (!names.includes(name)) {
  console.error(`usage: npm run bench -- ${names.join('|')} [--json]`);
  process.exit(2);
}
const run = (command, args, cwd) => {
  const { status } = spawnSync(command, args, { cwd, stdio: ['ignore', 2, 2] });
  if (status !== 0) process.exit(status ?? 1);
};
await install();
await build();
const peers = Object.keys(JSON.parse(readFileSync(`${here}package.json`, 'utf8')).dependencies);
if (!peers.every((peer) => existsSync(`${here}node_modules/${peer}`)))
  run('npm', ['install', '--no-audit', '--no-fund'], here);
const { status } = spawnSync(process.execPath, ['--expose-gc', `${here}${name}.mjs`, ...rest], {
  stdio: 'inherit',
});
process.exit(status ?? 1);
