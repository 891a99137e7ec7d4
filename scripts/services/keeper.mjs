// Runs one server for exactly as long as the process that forked this one lives. It is a separate process so that the server
// ends, and its folder is removed, even if the parent was killed with SIGKILL.
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
  // A test may have frozen the server, and a frozen process does not handle `quit` until it continues.
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
