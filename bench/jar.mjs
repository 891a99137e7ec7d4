// Selects the state for a request from a jar with many servers, compared with tough-cookie doing the same for cookies, and
// opens a jar of 100,000 keys. Internal modules are measured directly from the sources.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CookieJar } from 'tough-cookie';
import { register } from 'tsx/esm/api';
import { openBench } from './measure.mjs';

register();
const { Events } = await import('../src/core/events.ts');
const { identify } = await import('../src/client/identity/identity.ts');
const { ClientJar } = await import('../src/client/jar/jar.ts');
const { openStore } = await import('../src/store/index.ts');

const json = process.argv.includes('--json');
const KEYS = 3;
const QUOTAS = { keys: 1_000_000 };
const META = 'modelcontextprotocol.io/state/';
const request = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'view_cart', arguments: {} } };

const urlOf = (at) => `https://mcp.server${at}.com/mcp`;
const textOf = (at) => `value ${at} of some forty characters in all`.padEnd(40, '.');

/** Creates a jar with `servers` servers, each with a few keys and a connection. */
async function ourJar(servers, { store, keys = KEYS } = {}) {
  const own = store ?? (await openStore('memory:'));
  const jar = new ClientJar({ store: own, principal: '', events: new Events(), quotas: QUOTAS });
  const views = [];
  for (let at = 0; at < servers; at++) {
    const view = jar.view(identify({ kind: 'http', url: new URL(urlOf(at)) }), { account: '', exact: true });
    const update = Object.fromEntries(Array.from({ length: keys }, (_, key) => [`key${key}`, textOf(key)]));
    await jar.open(view);
    await jar.receive({ [`${META}server`]: update }, { view, session: view.session, epoch: 0 });
    views.push(view);
  }
  return { jar, views };
}

function cookieJar(servers, keys = KEYS) {
  const jar = new CookieJar();
  for (let at = 0; at < servers; at++) {
    for (let key = 0; key < keys; key++)
      jar.setCookieSync(`key${key}=${textOf(key).replaceAll(' ', '_')}; Max-Age=1000000`, urlOf(at));
  }
  return jar;
}

/**
 * Returns the order in which the first `count` servers are used: unpredictable for caches, and the same for both subjects.
 */
function orderOf(count) {
  let state = 1;
  return Uint32Array.from({ length: 65_536 }, () => (state = (state * 48_271) % 2_147_483_647) % count);
}

const bench = openBench('jar');
const picks = [];
for (const servers of [10, 1000, 100_000]) {
  const { views, jar } = await ourJar(servers);
  const cookies = cookieJar(servers);
  const urls = Array.from({ length: servers }, (_, at) => urlOf(at));
  const label = `${servers.toLocaleString('en')} servers`;
  // A typical client talks to a few of the servers in its jar; a large host may talk to all of them.
  for (const [name, count, goal] of [
    [`pick, ${label}`, 10, 10],
    [`pick, ${label}, all in use`, servers, 5],
  ]) {
    const order = orderOf(count);
    const [row] = await bench.compare(name, {
      ours: (at) => {
        const view = views[order[at & 65_535]];
        return view.pick(request, 'legacy', view.session);
      },
      peers: {
        'tough-cookie': { run: (at) => cookies.getCookieStringSync(urls[order[at & 65_535]]), goal },
      },
    });
    if (row && count === 10) picks.push(row);
    if (servers === 10) break;
  }
  const order = orderOf(servers);
  await bench.compare(`set and pick, ${label}`, {
    ours: (at) => {
      const view = views[order[at & 65_535]];
      const origin = { view, session: view.session, epoch: 0 };
      void jar.receive({ [`${META}session`]: { key0: `value ${at}` } }, origin);
      return view.pick(request, 'legacy', view.session);
    },
    peers: {
      'tough-cookie': (at) => {
        const url = urls[order[at & 65_535]];
        cookies.setCookieSync(`key0=value_${at}; Max-Age=1000000`, url);
        return cookies.getCookieStringSync(url);
      },
    },
  });
}
if (picks.length === 3) {
  const growth = (column) => (picks[2][column] / picks[0][column]).toFixed(1);
  bench.note(
    `from 10 to 100,000 servers: ours × ${growth('ours_us')}, tough-cookie × ${growth('peer_us')}\n`,
  );
}

/** Returns milliseconds by both clocks: the median of five rounds by CPU time. */
async function median(work) {
  const times = [];
  for (let round = 0; round < 5; round++) {
    globalThis.gc?.();
    const cpu = process.cpuUsage();
    const start = performance.now();
    await work();
    const wall = performance.now() - start;
    const { user, system } = process.cpuUsage(cpu);
    times.push({ cpu: (user + system) / 1000, wall });
  }
  return times.sort((a, b) => a.cpu - b.cpu)[2];
}

/**
 * Measures how long a cookie jar takes to be restored, or returns why it cannot be. It runs in its own process, because it
 * overflows the stack at some depth, which cannot always be caught, and sometimes silently restores only a part of the jar.
 */
function restoreCookies(file, servers) {
  const script = `import { readFileSync } from 'node:fs';
    import { CookieJar } from ${JSON.stringify(import.meta.resolve('tough-cookie'))};
    const median = ${median};
    const text = readFileSync(${JSON.stringify(file)}, 'utf8');
    const last = ${JSON.stringify(urlOf(servers - 1))};
    let jar;
    const time = await median(() => (jar = CookieJar.deserializeSync(text)));
    if (jar.getCookieStringSync(last) === '') throw new RangeError('Maximum call stack size exceeded');
    console.log(JSON.stringify(time));`;
  const args = ['--expose-gc', '--input-type=module', '-e', script];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  if (status === 0) return { time: JSON.parse(stdout) };
  const overflow = stderr.includes('Maximum call stack size exceeded');
  return { failure: overflow ? 'overflows the stack' : `ends with ${status}` };
}

function report(name, ours, { time, failure }) {
  const row = {
    bench: 'jar',
    case: name,
    ours_us: Math.round(ours.cpu * 1000),
    peer: 'tough-cookie',
    peer_us: time ? Math.round(time.cpu * 1000) : null,
    ratio: time ? Number((time.cpu / ours.cpu).toFixed(3)) : null,
    ours_wall_us: Math.round(ours.wall * 1000),
    ...(failure && { peer_failure: failure }),
  };
  if (json) console.log(JSON.stringify(row));
  else {
    const figures = `${ours.cpu.toFixed(0).padStart(5)} ms cpu ${ours.wall.toFixed(0).padStart(5)} ms wall`;
    console.log(`${name.padEnd(52)}${figures}   tough-cookie ${failure ?? `${time.cpu.toFixed(0)} ms cpu`}`);
  }
}

const folder = mkdtempSync(join(tmpdir(), 'valise-bench-'));
try {
  for (const [servers, keys] of [
    [100, 20],
    [250, 20],
    [5000, 20],
    [100_000, 1],
  ]) {
    const total = (servers * keys).toLocaleString('en');
    const file = join(folder, `${servers}.json`);
    writeFileSync(file, JSON.stringify(cookieJar(servers, keys).serializeSync()));
    const cookies = restoreCookies(file, servers);
    for (const kind of ['memory', 'sqlite']) {
      const store = await openStore(
        kind === 'memory' ? 'memory:' : `sqlite:${join(folder, `${servers}.db`)}`,
      );
      await ourJar(servers, { store, keys });
      const ours = await median(() =>
        new ClientJar({ store, principal: '', events: new Events(), quotas: QUOTAS }).refresh(),
      );
      report(`restore ${total} keys of ${servers.toLocaleString('en')} servers, ${kind}`, ours, cookies);
      await store.close();
    }
  }
} finally {
  rmSync(folder, { recursive: true });
}
bench.close();
