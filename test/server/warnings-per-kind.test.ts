import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { MAJORS } from './majors.ts';
import { rawClient } from './raw-client.ts';

describe.each(MAJORS)('warnings ($major)', ({ McpServer, Memory }) => {
  it('many warnings of one kind that a client causes do not silence another kind', async () => {
    const warnings: string[] = [];
    const valise = createValise({
      name: 'test',
      store: memoryStore(),
      events: { warning: ({ what }) => warnings.push(what) },
    });
    let n = 0;
    const connect = async (capabilities: object) => {
      const server = valise.install(new McpServer({ name: 'test', version: '1.0.0' }));
      server.registerTool('work', { inputSchema: z.object({ times: z.number() }) }, async ({ times }) => {
        const { session, server } = valise.jar;
        for (let each = 0; each < times; each++) session.set(`made up ${n++}`, 'x'.repeat(5000));
        server.set('n', n);
        return { content: [] };
      });
      const [near, far] = Memory.createLinkedPair();
      await server.connect(far);
      return rawClient(near, capabilities);
    };
    const carrying = await connect({ state: {} });
    for (let calls = 0; calls < 12; calls++) await carrying.call('work', { times: 100 });
    const large = warnings.filter((what) => what.includes('a client need not keep more'));
    expect([n, large.length]).toEqual([1200, 100]);
    expect(warnings.filter((what) => what.includes('Further ones are not told'))).toHaveLength(1);
    const other = await connect({});
    await other.call('work', { times: 0 });
    expect(warnings.at(-1)).toContain('Server-scope state of a client that carries none');
    await valise.close();
  });
});
