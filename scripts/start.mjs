#!/usr/bin/env node
// `npm start`: installs and builds if necessary, then runs `valise tour`.
import { spawnSync } from 'node:child_process';
import { createInterface } from 'node:readline/promises';
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
if (status === 0) await offerConsole();

/** Offers the tour in the console. Without a terminal it only names the command; a program reads stdout. */
async function offerConsole() {
  say('play the same stories in the console, and kill a process yourself: node bin/valise.js tour --console');
  if (!process.stdin.isTTY || !process.stdout.isTTY) return;
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await terminal.question('Open the console in a browser? [y/N] ').catch(() => '');
  terminal.close();
  if (!/^y(es)?$/i.test(answer.trim())) return;
  spawnSync(process.execPath, [`${root}bin/valise.js`, 'tour', '--console'], { cwd: root, stdio: 'inherit' });
}
