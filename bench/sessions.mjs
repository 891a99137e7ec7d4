// Measures what a session adds to a call: the same call with and without one, in one run. Compared with what web session
// middleware adds to a request that reads, changes and stores one value. Only stores use sockets: Valise's calls use the
// SDK's in-memory transport, the peers' requests use Fastify's injector. With Redis and PostgreSQL, 16 calls are in flight,
// each in a session of its own: with one, most of the time is spent on going to sleep and waking up, on both sides.
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { InMemoryTransport } from '@modelcontextprotocol/client';
import { McpServer } from '@modelcontextprotocol/server';
import { RedisStore } from 'connect-redis';
import express from 'express';
import expressSession from 'express-session';
import { getIronSession } from 'iron-session';
import inject from 'light-my-request';
import { createClient } from 'redis';
import { generateKey } from '../dist/seal/index.js';
import { createValise } from '../dist/server/index.js';
import { openStore } from '../dist/store/index.js';
import { startServices } from '../scripts/services.mjs';
import { openBench } from './measure.mjs';

const { z } = createRequire(new URL('../package.json', import.meta.url))('zod');
const password = 'a password of at least thirty-two characters';

/** Number of sessions; more than calls in flight, because the bench should not measure how often writers collide. */
const SESSIONS = 64;
const IN_FLIGHT = 16;

/** Creates a server with one tool that counts in its session, and a client that only sends JSON-RPC. */
async function ours(sessions, store) {
  const valise = createValise({ name: 'bench', keys: generateKey(), store, sessions });
  const server = valise.install(new McpServer({ name: 'bench', version: '1.0.0' }));
  server.registerTool('count', { inputSchema: z.object({}) }, async () => {
    const session = valise.session();
    const n = (session?.get('n') ?? 0) + 1;
    session?.set('n', n);
    return { content: [{ type: 'text', text: String(n) }] };
  });
  const [near, far] = InMemoryTransport.createLinkedPair();
  await server.connect(far);
  const waiting = new Map();
  near.onmessage = (message) => {
    waiting.get(message.id)?.(message);
    waiting.delete(message.id);
  };
  await near.start();
  let id = 0;
  const request = (method, params) =>
    new Promise((resolve) => {
      waiting.set(++id, resolve);
      void near.send({ jsonrpc: '2.0', id, method, params });
    });
  // Declares a client that carries state and supports sessions, so that no other part of Valise has work to do.
  await request('initialize', {
    protocolVersion: '2025-11-25',
    capabilities: { state: {}, experimental: { sessions: {} } },
    clientInfo: { name: 'bench', version: '1.0.0' },
  });
  const key = 'io.modelcontextprotocol/session';
  const list = [];
  for (let made = 0; made < SESSIONS; made++) list.push((await request('sessions/create')).result.session);
  const call = (_meta) => request('tools/call', { name: 'count', arguments: {}, ...(_meta && { _meta }) });
  return {
    async withSession(index) {
      const { sessionId, state } = list[index % SESSIONS];
      const { result } = await call({ [key]: { sessionId, state } });
      list[index % SESSIONS] = { sessionId, state, ...result._meta[key] };
    },
    withoutSession: () => call(),
    close: () => valise.close(),
  };
}

/** Creates an Express app with one route that counts in its session, and a browser with its cookie. */
async function expressPeer(store) {
  const app = express();
  app.get('/plain', (_request, response) => response.json({ n: 1 }));
  const session = expressSession({ secret: password, resave: false, saveUninitialized: false, store });
  app.get('/', session, (request, response) => {
    request.session.n = (request.session.n ?? 0) + 1;
    response.json({ n: request.session.n });
  });
  return browser(app);
}

/** Creates the same with a cookie that contains the sealed state itself. */
async function ironPeer() {
  return browser(async (request, response) => {
    let n = 1;
    if (request.url === '/') {
      const session = await getIronSession(request, response, { password, cookieName: 'iron' });
      n = session.n = (session.n ?? 0) + 1;
      await session.save();
    }
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ n }));
  });
}

function browser(handler) {
  const cookies = [];
  const get = (url, index) => {
    const cookie = cookies[index % SESSIONS];
    return inject(handler, { method: 'GET', url, headers: cookie && { cookie } });
  };
  return {
    async withSession(index) {
      const { headers, statusCode } = await get('/', index);
      if (statusCode !== 200) throw new Error(`status ${statusCode}`);
      const set = [headers['set-cookie']].flat()[0];
      if (set) cookies[index % SESSIONS] = set.split(';')[0];
    },
    withoutSession: (index) => get('/plain', index),
  };
}

const bench = openBench('sessions', { slotMs: 100, warmUpMs: 6000, rounds: 25 });

/** Compares the added cost of a session with that of the peer. */
async function compare(name, mine, peerName, peer, { clock = 'cpu', goal = 1, inFlight = 1 } = {}) {
  const rows = await bench.compare(name, {
    clock,
    inFlight,
    ours: mine.withSession,
    peers: {
      'the same call without a session': mine.withoutSession,
      ...(peer && { [peerName]: peer.withSession, [`${peerName}, without`]: peer.withoutSession }),
    },
  });
  if (rows.length === 0) return;
  const [without, theirs, theirsWithout] = rows;
  const ours_us = without.ours_us - without.peer_us;
  if (!peer) {
    bench.note(`  a session adds ${ours_us.toFixed(1)} µs of ${clock} time to the call\n`);
    return;
  }
  bench.judge(`${name}: added by the session`, {
    ours_us,
    peer: peerName,
    peer_us: theirs.peer_us - theirsWithout.peer_us,
    clock,
    goal,
  });
}

const folder = mkdtempSync(join(tmpdir(), 'valise-bench-'));
const services = await startServices(['redis', 'postgres']);
const open = [];
const mine = async (sessions, url) => {
  const store = url && (await openStore(url));
  const one = await ours(sessions, store);
  open.push(one.close, () => store?.close());
  return one;
};
const redis = await createClient({ url: services.urls.redis }).connect();
open.push(() => redis.destroy());

const iron = await ironPeer();
await compare('sealed, no store', await mine({ mode: 'sealed' }), 'iron-session 8', iron, { clock: 'wall' });
await compare(
  'stored in memory',
  await mine({ mode: 'stored' }, 'memory:'),
  'express-session, memory',
  await expressPeer(new expressSession.MemoryStore()),
);
await compare('stored in SQLite', await mine({ mode: 'stored' }, `sqlite:${folder}/state.db`));
const connect = await expressPeer(new RedisStore({ client: redis }));
await compare(
  'stored in Redis',
  await mine({ mode: 'stored' }, services.urls.redis),
  'express-session, connect-redis 9',
  connect,
  // The goal is at most 0.8 of what the peer adds.
  { goal: 1 / 0.8, inFlight: IN_FLIGHT },
);
const pg = await mine({ mode: 'stored' }, services.urls.postgres);
await compare('stored in PostgreSQL', pg, undefined, undefined, { inFlight: IN_FLIGHT });
bench.close();

for (const close of open.reverse()) await close();
rmSync(folder, { recursive: true, force: true });
await services.stop();
