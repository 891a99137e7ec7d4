#!/usr/bin/env node
// `npm start`: installs and builds if necessary, then runs `valise tour`.
import { spawnSync } from 'node:child_process';
import { build, install } from './prepare.mjs';
import { root, say } from './steps.mjs';

try {
  await install();
  await build();
} catch (error) {
  say(error.message);
  process.exit(1);
}

const { status } = spawnSync(process.execPath, [`${root}bin/valise.js`, 'tour', ...process.argv.slice(2)], {
  cwd: root,
  stdio: 'inherit',
});
process.exitCode = status ?? 1;
// Only for people: a program reads what the tour itself prints.
if (status === 0 && process.stdout.isTTY) say('see it in a page: node bin/valise.js tour --console');
