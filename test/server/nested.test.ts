import type { IncomingMessage } from 'node:http';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { createValise, type ServerValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { accept, echo, name, text, type Wire } from './flow-peer.ts';
import { CARRIERS, call, endServers, initialize, listen, post } from './http-stage.ts';
import { MAJORS, type Major } from './majors.ts';

afterEach(endServers);

const inputSchema = z.object({});

/** A client in the server's own process: whatever is asked it answers at once, within what goes on when it is asked. */
async function neighbour({ Memory }: Major, server: { connect(transport: never): Promise<void> }) {
  const [near, far] = Memory.createLinkedPair();
  await server.connect(far as never);
  let asked = 0;
  const waiting = new Map<unknown, (message: Wire) => void>();
  near.onmessage = (message: unknown) => {
    const wire = JSON.parse(JSON.stringify(message)) as Wire;
    // One that is asked over and over gives up, so that the test ends.
    if (wire.method && ++asked < 10) void near.send(echo(wire, accept({ name: 'Ada' })) as never);
    else waiting.get(wire.id)?.(wire);
  };
  await near.start();
  const say = (message: Wire): Promise<Wire> =>
    new Promise((resolve) => {
      waiting.set(message.id, resolve);
      void near.send(message as never);
    });
  await say(initialize({ elicitation: {}, extensions: CARRIERS }));
  return say;
}

describe.each(MAJORS)('a server of SDK $major in the process of its client', (major) => {
  /** A tool that asks `questions` times, and says what it finds in its client's state after each. */
  const asking = (valise: ServerValise, questions: number) => {
    const server = valise.install(new major.McpServer({ name: 'inner', version: '1.0.0' }));
    server.registerTool(
      'order',
      { inputSchema },
      valise.flow(async (_, flow) => {
        const found: unknown[] = [];
        for (let n = 0; n < questions; n++) {
          await flow.ask(`question ${n}`, name);
          found.push(valise.jar.session.get('secret') ?? null);
        }
        return text(JSON.stringify(found));
      }),
    );
    return neighbour(major, server as never);
  };

  it.each([1, 2, 3])('an in-process server assigns each of %i answers to its call', async (questions) => {
    const say = await asking(createValise({ name: 'test' }), questions);
    const { result } = await say(call('order'));
    expect(JSON.parse(result.content[0].text)).toHaveLength(questions);
  });

  it.each([1, 2])(
    'an in-process server sees no state of the outer HTTP client after %i answers',
    async (n) => {
      const valise = createValise({ name: 'test', store: memoryStore() });
      const say = await asking(valise, n);
      const outer = () => {
        const server = valise.install(new MAJORS[0].McpServer({ name: 'outer', version: '1.0.0' }));
        server.registerTool('work', { inputSchema }, async () => (await say(call('order'))).result);
        server.registerTool('plain', { inputSchema }, async () => {
          valise.jar.session.set('secret', 'of the HTTP client');
          return text('set');
        });
        return server;
      };
      const url = await listen(
        valise.http(async (request: IncomingMessage, response, body) => {
          const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined as never });
          await outer().connect(transport as never);
          await transport.handleRequest(request, response, body);
        }) as never,
      );
      const { headers } = await post(url, initialize({}));
      const session = { 'mcp-session-id': headers.get('mcp-session-id') as string };
      expect((await post(url, call('plain'), session)).message.result).toMatchObject(text('set'));
      const { message } = await post(url, call('work'), session);
      expect(message.result).toMatchObject(text(JSON.stringify(Array(n).fill(null))));
    },
  );
});
