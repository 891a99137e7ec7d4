import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';
import { setImmediate as turn } from 'node:timers/promises';
import type { McpServer } from '@modelcontextprotocol/server';
import fc from 'fast-check';
import { createValise } from 'mcp-valise/server';
import { describe, expect, it, vi } from 'vitest';
import { type Caller, NEWER, WAYS, type Way, World } from './factory-world.ts';
import { setHandler } from './majors.ts';

const TOOLS = [
  'who',
  'notify',
  'register',
  'handle',
  'disable',
  'describe',
  'throw',
  'listen',
  'request',
  'keep',
  'use-kept',
  'late-notify',
  'late-unbound',
  'late-server',
  'late-register',
  'late-describe',
  'late-handle',
  'late-close',
  'late-who',
  'no-such-tool',
] as const;

const caller = fc.record({
  isNamed: fc.boolean(),
  capabilities: fc.constantFrom({}, { sampling: {} }, { elicitation: { form: {} } }, { roots: {} }),
  principal: fc.constantFrom(undefined, 'ada', 'bob'),
});
const step = fc.record({
  caller,
  does: fc.oneof(
    { weight: 5, arbitrary: fc.record({ call: fc.constantFrom(...TOOLS) }) },
    fc.record({ other: fc.constantFrom('list', 'initialize', 'level', 'unknown', 'cancel') }),
    { weight: 3, arbitrary: fc.record({ hold: fc.constantFrom('stay', 'hang up') }) },
  ),
});
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

/** What a world answers to a step. */
async function run(world: World, { caller: given, does }: Step, mark: string): Promise<unknown> {
  const from: Caller = {
    client: given.isNamed ? mark : undefined,
    capabilities: given.capabilities,
    principal: given.principal,
  };
  if ('call' in does) return world.call(does.call, mark, from);
  if ('hold' in does) {
    const late: unknown[] = [];
    const hangUp = new AbortController();
    const answer = await world.during(
      mark,
      from,
      async () => {
        for (const work of world.lates.splice(0)) late.push(await work());
        for (const close of world.closes.splice(0)) await close();
        late.push(await world.ask('tools/list', {}, from));
        if (does.hold === 'hang up') hangUp.abort();
      },
      hangUp.signal,
    );
    return [does.hold === 'hang up' ? 'hung up' : answer, late];
  }
  if (does.other === 'initialize') return world.initialize(from);
  if (does.other === 'level') return world.ask('logging/setLevel', { level: 'error' }, from);
  if (does.other === 'cancel') return world.ask('notifications/cancelled', { requestId: 1 }, from);
  return world.ask(does.other === 'list' ? 'tools/list' : 'no/such/method', {}, from);
}

/** Serves the same steps with reused servers and with fresh ones. */
async function compare(way: Way, steps: readonly Step[]): Promise<void> {
  const reused = new World(way);
  const fresh = new World(way, { reuse: false });
  for (const [at, each] of steps.entries()) {
    const mark = `mark-${at}x`;
    const answer = await run(reused, each, mark);
    expect(answer, `step ${at}`).toEqual(await run(fresh, each, mark));
    await turn();
  }
  expect(reused.warnings).toEqual([]);
}

interface Bare {
  onmessage?: (message: object) => void;
  onclose?: () => void;
  readonly sent: object[];
}

/** Servers on transports that do what they are told, in the older era. */
function bare({ major }: Way, change: (server: McpServer) => void = () => {}) {
  const valise = createValise({ name: 'test', keys: 'ephemeral' });
  const make = Object.assign(
    valise.factory(() => {
      make.builds++;
      const server = new major.McpServer({ name: 'test', version: '1.0.0' });
      server.registerTool('wait', {}, () => new Promise(() => {}));
      change(server);
      return server;
    }),
    { builds: 0 },
  );
  const connect = async (server: McpServer): Promise<Bare> => {
    const sent: object[] = [];
    const transport = {
      start: async () => {},
      close: async () => {},
      send: async (each: object) => void sent.push(each),
    };
    await server.connect(transport);
    return Object.assign(transport, { sent });
  };
  const ask = async (to: Bare, method: string, params: object = {}): Promise<void> => {
    to.onmessage?.({ jsonrpc: '2.0', id: 1, method, params });
    await vi.waitFor(() => expect(to.sent).not.toEqual([]));
  };
  return { make, connect, ask };
}

describe.each(WAYS)('valise.factory ($way)', (way) => {
  it('a factory answers requests of different users as if it built a server for each request', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 12 }), (steps) => compare(way, steps)),
      { numRuns: 60 },
    );
  });

  it.each(TOOLS)(
    'a factory answers the next requests as a new server would, after a call of %s',
    async (tool) => {
      const everybody = { isNamed: true, capabilities: { sampling: {} }, principal: 'ada' } as const;
      const nobody = { isNamed: false, capabilities: {}, principal: undefined } as const;
      const rest: Step[] = [
        { caller: nobody, does: { hold: 'stay' } },
        { caller: nobody, does: { call: 'who' } },
        { caller: nobody, does: { call: 'use-kept' } },
        { caller: nobody, does: { other: 'list' } },
      ];
      await compare(way, [{ caller: everybody, does: { call: tool } }, ...rest]);
      if (way.version === NEWER) return;
      await compare(way, [{ caller: everybody, does: { other: 'initialize' } }, ...rest]);
      await compare(way, [{ caller: everybody, does: { other: 'level' } }, ...rest]);
    },
  );

  it('a factory builds one server for sequential calls', async () => {
    const world = new World(way);
    for (let at = 0; at < 20; at++) {
      expect(JSON.stringify(await world.call('notify', `mark ${at}`))).toContain(`mark ${at}`);
      await turn();
    }
    expect(world.builds).toBe(1);
  });

  it('a factory builds a server for each request with reuse: false', async () => {
    const world = new World(way, { reuse: false });
    for (let at = 0; at < 3; at++) {
      await world.call('who', '');
      await turn();
    }
    expect(world.builds).toBe(3);
  });

  it.each(['register', 'handle', 'disable', 'describe', 'listen'] as const)(
    'a factory does not reuse a server that a call of %s has changed',
    async (tool) => {
      const world = new World(way);
      await world.call(tool, 'mark');
      await turn();
      await world.call('who', '');
      expect(world.builds).toBe(2);
    },
  );

  it('a factory does not reuse a server whose handler still runs after the client hung up', async () => {
    const world = new World(way);
    const hangUp = new AbortController();
    await world.during(
      '',
      {},
      async () => {
        hangUp.abort();
        await turn();
        await world.call('who', '');
      },
      hangUp.signal,
    );
    await turn();
    expect(world.builds).toBe(2);
  });

  it('a factory keeps at most maxIdle idle servers after a burst', async () => {
    const world = new World(way, { maxIdle: 3 });
    await Promise.all(Array.from({ length: 12 }, () => world.call('who', '')));
    await turn();
    expect(world.builds).toBe(12);
    await Promise.all(Array.from({ length: 12 }, () => world.call('who', '')));
    expect(world.builds).toBe(12 + 12 - 3);
  });

  it('a factory stops reusing servers, and warns, when one sends a message outside of any request', async () => {
    const world = new World(way);
    await world.call('who', '');
    await turn();
    const { last } = world;
    const answer = await world.during('mine', {}, async () => {
      // From outside of the call's async context: nobody knows whose connection this is for.
      await last?.server.notification(
        { method: 'notifications/message', params: { level: 'error', data: 'stray' } },
        { relatedRequestId: 1 },
      );
    });
    expect(JSON.stringify(answer)).toContain('mine');
    expect(JSON.stringify(answer)).not.toContain('stray');
    expect(world.warnings).toEqual([expect.stringContaining('outside of any request')]);
    await turn();
    await world.call('who', '');
    await turn();
    await world.call('who', '');
    expect(world.builds).toBe(3);
  });

  it('a handler sends messages with its own context even outside of its async context', async () => {
    const world = new World(way);
    await world.call('who', '');
    await turn();
    const answer = await world.during('mine', {}, () => world.notifyHeld('outside'));
    expect(JSON.stringify(answer)).toMatch(/outside.*mine/);
    expect(world.warnings).toEqual([]);
    expect(world.builds).toBe(1);
  });

  it('a closed transport can neither deliver messages to the next connection nor close it', async () => {
    const { make, connect, ask } = bare(way);
    const first = await connect(make());
    await ask(first, 'ping');
    first.onclose?.();
    await turn();
    const second = await connect(make());
    first.onmessage?.({ jsonrpc: '2.0', id: 'late', method: 'ping' });
    first.onclose?.();
    await ask(second, 'ping');
    expect(second.sent).toEqual([expect.objectContaining({ id: 1, result: expect.anything() })]);
    expect(make.builds).toBe(1);
  });

  it('handlers that change the server after they have answered do not affect the next connection', async () => {
    const late: (() => void)[] = [];
    const { make, connect, ask } = bare(way, (server) => {
      const leave = (name: string, work: () => void) =>
        server.registerTool(name, {}, async () => {
          late.push(AsyncResource.bind(work));
          return { content: [] };
        });
      leave('register', () => server.registerTool('mark', {}, async () => ({ content: [] })));
      leave('update', () => registered.update({ description: 'mark' }));
      leave('handle', () =>
        setHandler(way.major, server, 'tools/list', async () => ({
          tools: [{ name: 'mark', inputSchema: { type: 'object' } }],
        })),
      );
      const registered = server.registerTool('plain', {}, async () => ({ content: [] }));
    });
    for (const name of ['register', 'update', 'handle']) {
      const before = make.builds;
      const first = await connect(make());
      await ask(first, 'tools/call', { name, arguments: {} });
      first.onclose?.();
      await turn();
      const second = await connect(make());
      expect(make.builds, 'the same server').toBe(Math.max(before, 1));
      expect(late.pop(), name).toThrow(expect.objectContaining({ code: 'not-connected' }));
      await ask(second, 'tools/list');
      expect(JSON.stringify(second.sent)).toContain('plain');
      expect(JSON.stringify(second.sent)).not.toContain('mark');
      second.onclose?.();
      await turn();
    }
  });

  it('a factory does not reuse an idle server that a handler changes after it has answered', async () => {
    const world = new World(way);
    await world.call('late-register', 'secret');
    await turn();
    for (const work of world.lates.splice(0)) await work();
    expect(JSON.stringify(await world.ask('tools/list', {}))).not.toContain('secret');
    expect(world.builds).toBe(2);
  });

  it('servers that cannot be reused take no room from servers that can', async () => {
    const world = new World(way, { maxIdle: 1 });
    await world.during('', {}, async () => {
      await world.call('register', 'mark');
      await turn();
    });
    await turn();
    await world.call('who', '');
    expect(world.builds).toBe(2);
  });

  it('a factory does not reuse a server whose handler begins after its connection has closed', async () => {
    const { make, connect } = bare(way);
    const first = await connect(make());
    first.onmessage?.({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'wait', arguments: {} },
    });
    first.onclose?.();
    await turn();
    await connect(make());
    expect(make.builds).toBe(2);
  });

  it('a factory does not reuse a server that holds its client in a hidden place', async () => {
    const { make, connect, ask } = bare(way, ({ server }) => {
      let kept: { name: string; version: string } | undefined;
      Object.defineProperty(server, '_clientVersion', {
        set: (client) => {
          kept = client;
        },
      });
      server.getClientVersion = () => kept;
    });
    const first = await connect(make());
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'ada', version: '1' },
    };
    await ask(first, 'initialize', params);
    first.onclose?.();
    await turn();
    const { server } = make();
    expect(server.getClientVersion()).toBeUndefined();
    expect(make.builds).toBe(2);
  });

  it('a factory does not reuse a server that lacks a field the factory has to inspect', async () => {
    for (const field of ['_requestHandlers', '_loggingLevels', '_responseHandlers', '_requestMessageId']) {
      const valise = createValise({ name: 'test', keys: 'ephemeral' });
      let builds = 0;
      const make = valise.factory(() => {
        builds++;
        const server = new way.major.McpServer({ name: 'test', version: '1.0.0' });
        Object.defineProperty(server.server, field, { value: undefined, writable: true });
        return server;
      });
      await make().close();
      await turn();
      await make().close();
      expect(builds, field).toBe(2);
    }
  });
});

describe('valise.factory', () => {
  const [, { major }] = WAYS;
  const build = () => new major.McpServer({ name: 'test', version: '1.0.0' });
  const valise = createValise({ name: 'test', keys: 'ephemeral' });

  it('a factory does not reuse servers that are built from the request context, and passes that context on', async () => {
    const seen: unknown[] = [];
    const make = valise.factory((context: { era: string; authInfo?: string }) => {
      seen.push(context);
      return build();
    });
    for (let at = 0; at < 2; at++) {
      await make({ era: 'modern', authInfo: `user ${at}` }).close();
      await turn();
    }
    expect(seen).toEqual([0, 1].map((at) => ({ era: 'modern', authInfo: `user ${at}` })));
  });

  it('a factory with reuse: true passes on only the era of the context, and separates the servers of each era', async () => {
    const seen: unknown[] = [];
    const make = valise.factory(
      (context: { era: string; authInfo?: string }) => {
        seen.push(context);
        return build();
      },
      { reuse: true },
    );
    for (const era of ['modern', 'legacy', 'modern', 'legacy']) {
      await make({ era, authInfo: 'ada' }).close();
      await turn();
    }
    expect(seen).toEqual([{ era: 'modern' }, { era: 'legacy' }]);
  });

  it('a factory builds servers outside of the async context of the request, which may reveal the user', async () => {
    const users = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    const make = valise.factory(() => {
      seen.push(users.getStore());
      return build();
    });
    users.run('ada', () => make());
    expect(seen).toEqual([undefined]);
  });

  it('a factory accepts an asynchronous function', async () => {
    let builds = 0;
    const make = valise.factory(async () => {
      builds++;
      return build();
    });
    for (let at = 0; at < 3; at++) {
      const made = make();
      expect(made).toBeInstanceOf(Promise);
      await (await made).close();
      await turn();
    }
    expect(builds).toBe(1);
  });

  it('a server that a factory has built cannot be connected a second time', async () => {
    const server = valise.factory(build)();
    const [, there] = major.Memory.createLinkedPair();
    await server.connect(there);
    await server.close();
    const [, other] = major.Memory.createLinkedPair();
    await expect(server.connect(other)).rejects.toMatchObject({ code: 'already-connected' });
  });

  it('valise.factory() refuses invalid arguments and says what it takes', () => {
    expect(() => valise.factory(undefined as never)).toThrow(
      expect.objectContaining({ code: 'invalid-argument' }),
    );
    expect(() => valise.factory(build, { maxIdle: -1 })).toThrow(
      expect.objectContaining({ code: 'invalid-argument' }),
    );
  });
});
