// One instance of the fleet that the fault table is measured on, run with the built package. Its effects leave a line in a file,
// so that it can be counted from the outside how often each was done.
//
// SIGUSR2 sets the clock of the process an hour ahead, and back again.

import { once } from 'node:events';
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { McpServer } from '@modelcontextprotocol/server';
import { createValise } from 'mcp-valise/server';
import { openStore } from 'mcp-valise/store';
import { postgresStore } from 'mcp-valise/store/postgres';
import { redisStore } from 'mcp-valise/store/redis';
import { z } from 'zod';
import { httpV2 } from '../../cli/dist/examples/serve-http.js';

const { port, store: url, timeout, durability, log } = JSON.parse(process.argv[2]);

const HOUR = 3_600_000;
let ahead = 0;
const now = Date.now.bind(Date);
globalThis.Date = class extends Date {
  constructor(...args) {
    super(...(args.length === 0 ? [now() + ahead] : args));
  }
  static now() {
    return now() + ahead;
  }
};
process.on('SIGUSR2', () => {
  ahead = ahead === 0 ? HOUR : 0;
});

const open = () => {
  if (durability === undefined) return openStore(url, { timeout });
  const options = { timeout, durability };
  return url.startsWith('redis') ? redisStore(url, options) : postgresStore(url, options);
};

const valise = createValise({
  name: 'fleet',
  store: await open(),
  sessions: { mode: 'stored', ...(!url.startsWith('sqlite') && { bus: url }) },
  events: {
    warning: ({ what }) => console.error(what),
    rejected: ({ what, reason }) => console.error(what, reason),
  },
});

const yes = {
  message: 'Go on?',
  schema: { type: 'object', properties: { go: { type: 'boolean' } }, required: ['go'] },
};
const text = (words) => ({ content: [{ type: 'text', text: words }] });

function server() {
  const fleet = valise.install(new McpServer({ name: 'fleet', version: '1.0.0' }));
  const tool = (name, inputSchema, handler) => fleet.registerTool(name, { inputSchema }, handler);
  tool('append', z.object({ note: z.string() }), async ({ note }) => {
    const session = valise.session();
    if (!session) throw new Error('no session');
    session.set('notes', [...(session.get('notes') ?? []), note]);
    return text(note);
  });
  tool('notes', z.object({}), async () => text(JSON.stringify(valise.session()?.get('notes') ?? [])));
  tool('keep', z.object({ tag: z.string(), n: z.number() }), async ({ tag, n }) => {
    valise.jar.session.set('n', n);
    return text(`${tag} ${n}`);
  });
  tool('kept', z.object({}), async () => text(String(valise.jar.session.get('n') ?? 0)));
  tool(
    'order',
    z.object({ tag: z.string() }),
    valise.flow(async ({ tag }, flow) => {
      await flow.ask('go', yes);
      await flow.once('charge', () => appendFileSync(log, `${tag}\n`));
      return text(tag);
    }),
  );
  return fleet;
}

const endpoint = await httpV2(server, true);
const answer = valise.http(endpoint.answer);
const listener = createServer((request, response) => {
  answer(request, response).catch(() => response.destroy());
});
listener.listen(port, '127.0.0.1', () => console.log('listening'));
// What is under way is answered first, as far as that takes no longer than a question that nobody answers.
process.once('SIGTERM', async () => {
  listener.close();
  listener.closeIdleConnections();
  await Promise.race([once(listener, 'close'), pause(3000)]);
  await endpoint.close();
  await valise.close();
  process.exit(0);
});
