// Measures the time from the start of a process to its first tool result, over HTTP with OAuth: with the state that an
// earlier process left (ours), with none (cold), and with the SDK alone. Processes wait for each other here, so wall time
// counts.
//
//   npm run bench -- resume [--json] [--rounds N]
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { openBench } from './measure.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'valise-bench-'));
const env = { ...process.env, VALISE_KEYS: randomBytes(32).toString('base64url'), NODE_NO_WARNINGS: '1' };

const vault = spawn(
  process.execPath,
  [`${root}cli/dist/examples/vault.js`, '--http', '0', '--with-auth', '--store', 'memory:'],
  {
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  },
);
const url = await new Promise((resolve, reject) => {
  createInterface({ input: vault.stdout }).on('line', (line) => {
    const found = /^listening on (\S+)$/.exec(line);
    if (found) resolve(found[1]);
  });
  vault.once('exit', () => reject(new Error('The vault did not start.')));
});

/** Runs a host until its first result. */
async function run(kind, store, delay) {
  const args = [`${root}bench/resume/client.mjs`, kind, url, store, String(delay)];
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit').then(() => ['nothing']);
  const [line] = await Promise.race([once(createInterface({ input: child.stdout }), 'line'), ended]);
  // The exit of a process is not part of the measurement.
  child.kill('SIGKILL');
  await ended;
  if (!/^\d+$/.test(line)) throw new Error(`The host said ${line}.`);
}

let stores = 0;
/** The lower bound for every host: starts Node and loads the SDK. */
async function floor() {
  const code = "await import('@modelcontextprotocol/client'); process.stdout.write('0\\n')";
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { cwd: root, env });
  await once(createInterface({ input: child.stdout }), 'line');
  child.kill('SIGKILL');
}

const fresh = () => `sqlite:${folder}/${++stores}.db`;

const bench = openBench('resume', { clock: 'wall', rounds: 15 });
try {
  for (const delay of [0, 25, 100]) {
    const kept = fresh();
    await run('valise', kept, delay);
    await bench.compare(delay === 0 ? 'a server on this machine' : `a server ${delay} ms away`, {
      ours: () => run('valise', kept, delay),
      peers: {
        cold: { run: () => run('valise', fresh(), delay), goal: 2 },
        'the SDK alone': () => run('stock', '-', delay),
        'nothing but Node and the SDK': floor,
      },
    });
  }
  bench.close();
} finally {
  vault.kill();
  rmSync(folder, { recursive: true, force: true });
}
