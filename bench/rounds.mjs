// A call that asks twice: Valise with each carrier, compared with the SDK's own codec for the newest revision (which signs
// and does not encrypt), and with a handler that waits in memory with its state in Redis. Measures CPU time of the server,
// bytes on the wire, latency, and the memory of an instance with many open questions. Only Redis uses sockets: requests go
// to `fetch`.
import { createClient } from 'redis';
import { generateKey } from '../dist/seal/index.js';
import { memoryStore } from '../dist/store/index.js';
import { startServices } from '../scripts/services.mjs';
import { openBench } from './measure.mjs';
import { away } from './rounds/away.mjs';
import { dependent, modern, state, stock } from './rounds/clients.mjs';
import { ours, signed, waiting } from './rounds/servers.mjs';

const keys = generateKey();
const { urls, stop } = await startServices(['redis']);
const way = await away(urls.redis);
const clients = [];
/** Creates a handler that waits, with its state in the Redis at `url`. */
const waitingOn = async (url) => {
  const redis = createClient({ url });
  const listener = redis.duplicate();
  clients.push(redis, listener);
  await Promise.all([redis.connect(), listener.connect()]);
  return stock(await waiting(redis, listener));
};

const { handler } = ours({ keys });
const sdk = modern(signed(crypto.getRandomValues(new Uint8Array(32))));
const inMemory = await waitingOn(urls.redis);
const farAway = await waitingOn(way.url);
const carriers = {
  requestState: modern(handler),
  state: await state(handler),
  'dependent, shared': await dependent(handler, 'dependent-shared'),
  'dependent, each': await dependent(handler, 'dependent-each'),
  'id and mailbox': await stock(ours({ keys, store: memoryStore() }).handler),
};

const bench = openBench('rounds', { slotMs: 150, warmUpMs: 1500, rounds: 15 });
for (const [name, client] of Object.entries(carriers)) {
  await bench.compare(name, {
    ours: client.run,
    peers: {
      "the SDK's codec, signed": { run: sdk.run, goal: name === 'requestState' ? 1 / 1.15 : undefined },
      'in memory, Redis on loopback': { run: inMemory.run, clock: 'wall' },
      'in memory, Redis 1 ms away': { run: farAway.run, clock: 'wall', goal: 2 },
    },
  });
}

bench.note('\nbytes on the wire for one call of two rounds');
for (const [name, client] of Object.entries({
  ...carriers,
  "the SDK's codec": sdk,
  'in memory, Redis': inMemory,
})) {
  client.count.bytes = 0;
  await client.run();
  bench.note(`  ${name.padEnd(34)}${String(client.count.bytes).padStart(8)}`);
}

// Uses fewer waiting calls, because each holds its handler, its transport and its stream.
bench.note('\nmemory of an instance with open questions');
for (const [name, client, questions] of [
  ['carried (requestState)', carriers.requestState, 100_000],
  ['in memory, state in Redis', inMemory, 2000],
]) {
  const held = [];
  const open = async (count) => {
    for (let index = 0; index < count; index++) {
      const stream = await client.open();
      if (client === inMemory) held.push(stream);
    }
    globalThis.gc();
    return process.memoryUsage().heapUsed;
  };
  const before = await open(1000);
  const grown = (await open(questions)) - before;
  const each = Math.max(0, Math.round(grown / questions));
  bench.note(
    `  ${name.padEnd(34)}${String(questions).padStart(8)} open: ${(grown / 1e6).toFixed(1)} MB more, ${each} B each`,
  );
}
bench.close();
await Promise.all(clients.map((client) => client.quit()));
way.close();
await stop();
process.exit();
