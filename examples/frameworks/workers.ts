// Cloudflare Workers, with the compatibility flag nodejs_compat, VALISE_KEYS as a secret, and the Durable Object below as STORE.

import { DurableObject, env } from 'cloudflare:workers';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { createValise } from 'mcp-valise/server';
import type { Entry, KeyPage, ListOptions, PutOptions, Store } from 'mcp-valise/store';

/** Keeps what clients without Valise do not carry. One object is asked by all isolates, one request after the other. */
export class ValiseStore extends DurableObject {
  async get(key: string): Promise<Entry | undefined> {
    const entry = await this.ctx.storage.get<Entry>(`entry ${key}`);
    return entry?.expiresAt !== undefined && entry.expiresAt <= Date.now() ? undefined : entry;
  }

  async put(key: string, value: Entry['value'], { ttl, ifVersion, ifAbsent }: PutOptions = {}) {
    const before = await this.get(key);
    if ((ifAbsent && before) || (ifVersion !== undefined && before?.version !== ifVersion)) return undefined;
    const version = crypto.randomUUID();
    const end = ttl === undefined ? {} : { expiresAt: Date.now() + ttl * 1000 };
    await this.ctx.storage.put<Entry>(`entry ${key}`, { value, version, ...end });
    return version;
  }

  async delete(key: string, { ifVersion }: { ifVersion?: string } = {}): Promise<boolean> {
    const before = await this.get(key);
    if (!before || (ifVersion !== undefined && before.version !== ifVersion)) return false;
    return this.ctx.storage.delete(`entry ${key}`);
  }

  async list(prefix: string, { cursor, limit = 1000 }: ListOptions = {}): Promise<KeyPage> {
    const after = cursor === undefined ? {} : { startAfter: `entry ${cursor}` };
    const found = await this.ctx.storage.list<Entry>({ prefix: `entry ${prefix}`, limit, ...after });
    const names = [...found.keys()].map((name) => name.slice('entry '.length));
    const living = [...found.values()].map(
      ({ expiresAt = Number.POSITIVE_INFINITY }) => expiresAt > Date.now(),
    );
    const last = names.at(-1);
    const keys = names.filter((_, at) => living[at]);
    return names.length < limit || last === undefined ? { keys } : { keys, cursor: last };
  }

  /** Takes a lease, or prolongs it for the holder with this fence. Returns the fence, or undefined if another one has it. */
  async hold(key: string, ttl: number, fence?: number): Promise<number | undefined> {
    const before = await this.ctx.storage.get<{ fence: number; until: number }>(`lease ${key}`);
    const isHeld = before !== undefined && before.until > Date.now();
    if (fence === undefined ? isHeld : !isHeld || before.fence !== fence) return undefined;
    const next = fence ?? (before?.fence ?? 0) + 1;
    await this.ctx.storage.put(`lease ${key}`, { fence: next, until: Date.now() + ttl * 1000 });
    return next;
  }
}

/** The object, asked anew each time: what one request has opened, no other may use. */
const object = () => (env.STORE as DurableObjectNamespace<ValiseStore>).getByName('valise');

const store: Store = {
  get: (key) => object().get(key),
  put: (key, value, options) => object().put(key, value, options),
  delete: (key, options) => object().delete(key, options),
  list: (prefix, options) => object().list(prefix, options),
  async lease(key, ttl) {
    const fence = await object().hold(key, ttl);
    if (fence === undefined) return undefined;
    return {
      fence,
      renew: async (longer) => (await object().hold(key, longer, fence)) !== undefined,
      release: async () => void (await object().hold(key, 0, fence)),
    };
  },
  close: async () => {},
};

const valise = createValise({ name: 'notes', store });

function build(): McpServer {
  const server = valise.install(new McpServer({ name: 'notes', version: '1.0.0' }));
  server.registerTool('visit', { description: 'Counts visits.' }, async () => {
    const { server: kept } = valise.jar;
    const visits = Number(kept.get('visits') ?? 0) + 1;
    kept.set('visits', visits);
    return { content: [{ type: 'text', text: `visit ${visits}` }] };
  });
  server.registerTool(
    'order',
    { description: 'Orders a shirt, in a size that the user chooses.' },
    valise.flow(async (flow) => {
      const size = await flow.choose('size', 'Which size?', ['S', 'M', 'L']);
      return { content: [{ type: 'text', text: `ordered size ${size}` }] };
    }),
  );
  return server;
}

export default valise.http(createMcpHandler(build));
