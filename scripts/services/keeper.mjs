// Runs one server for as long as the process that forked this one lives, and not a moment longer.
// It is a process of its own so that the server also ends, and its folder goes, where the parent was killed with -9.
import { spawn } from 'node:child_process';
import { openSync, rmSync } from 'node:fs';

const { command, args, dir, env, uid, gid, halt, quit } = JSON.parse(process.argv[2]);
const log = openSync(`${dir}/log`, 'a');
const server = spawn(command, args, {
  cwd: dir,
  env: { ...process.env, ...env },
  uid,
  gid,
  stdio: ['ignore', log, log],
});

let forGood = !process.connected;
const endForGood = () => {
  forGood = true;
  server.kill(quit);
  // A test may have frozen it, and a frozen server hears nothing but this.
  server.kill('SIGCONT');
  setTimeout(() => server.kill('SIGKILL'), 5000);
};

server.on('error', (error) => process.send?.({ error: error.message }, () => process.exit(1)));
server.on('spawn', () => process.send?.({ pid: server.pid }));
server.on('exit', (code) => {
  if (forGood) rmSync(dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  process.exit(code ?? 1);
});
process.on('message', () => server.kill(halt));
process.on('disconnect', endForGood);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, endForGood);
if (forGood) endForGood();
