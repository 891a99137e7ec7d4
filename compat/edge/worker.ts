/** A server on Workers that keeps sessions in Durable Objects, and their large states in KV. */
import { env } from 'cloudflare:workers';
import { createMcpHandler, fromJsonSchema, McpServer } from '@modelcontextprotocol/server';
import { createValise } from 'mcp-valise/server';
import {
  type DurableObjectBinding,
  type DurableObjectState,
  durableObjectStore,
  ValiseStoreObject,
} from 'mcp-valise/store/durable-object';
import { upstashStore } from 'mcp-valise/store/upstash';
import { type WorkersKvBinding, workersKvStore } from 'mcp-valise/store/workers-kv';

/** The object of Valise, whose tables the tests can read and change: a PUT runs its body as SQL. */
export class InspectedObject extends ValiseStoreObject {
  readonly #sql: DurableObjectState['storage']['sql'];

  constructor(state: DurableObjectState) {
    super(state);
    this.#sql = state.storage.sql;
  }

  override async fetch(request: Request): Promise<Response> {
    if (request.method !== 'PUT') return super.fetch(request);
    return Response.json(this.#sql.exec(await request.text()).toArray());
  }
}

const valise = createValise({
  name: 'notes',
  store: durableObjectStore(env['STORE'] as DurableObjectBinding, { shards: 4 }),
  spillStore: workersKvStore(env['KV'] as WorkersKvBinding),
  sessions: {},
});

function build(): McpServer {
  const server = new McpServer({ name: 'notes', version: '1.0.0' });
  const text = fromJsonSchema<{ text: string }>({
    type: 'object',
    properties: { text: { type: 'string' } },
    required: ['text'],
  });
  server.registerTool('write', { inputSchema: text }, async ({ text }) => {
    const session = valise.session();
    const notes = [...((session?.get('notes') as string[] | undefined) ?? []), text];
    session?.set('notes', notes);
    return { content: [{ type: 'text', text: `${notes.length} notes, ${notes.join('').length} letters` }] };
  });
  return server;
}

const server = valise.http(createMcpHandler(valise.factory(build)));

/** Uses a store over HTTP, which is opened once for all requests. */
const overHttp = upstashStore(String(env['UPSTASH'] ?? 'upstash://none@localhost'));
async function count(): Promise<number> {
  for (;;) {
    const entry = await overHttp.get('count');
    const next = Number(entry?.value ?? 0) + 1;
    const condition = entry ? { ifVersion: entry.version } : { ifAbsent: true };
    if (await overHttp.put('count', next, { ...condition, ttl: 60 })) return next;
  }
}

export default {
  async fetch(request: Request): Promise<Response> {
    return new URL(request.url).pathname === '/count' ? Response.json(await count()) : server.fetch(request);
  },
};
