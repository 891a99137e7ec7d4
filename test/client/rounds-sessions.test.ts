import { InMemoryTransport } from '@modelcontextprotocol/client';
import { McpServer } from '@modelcontextprotocol/server';
import { LeaveOpen, openValise } from 'mcp-valise/client';
import type { Carrier } from 'mcp-valise/internal';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it, vi } from 'vitest';
import { commandOf } from '../e2e/example.ts';
import { example as greeter } from '../e2e/greeter.ts';
import { callText } from '../e2e/hosts.ts';
import { type Ask, askable, stage } from '../e2e/rounds-stage.ts';

const leave: Ask = () => {
  throw new LeaveOpen();
};
const ada = { action: 'accept', content: { name: 'Ada' } };

const HOSTS: {
  readonly client: 'v1' | 'v2';
  readonly era: 'legacy' | 'modern';
  readonly carrier?: Carrier;
}[] = [
  { client: 'v2', era: 'modern' },
  { client: 'v1', era: 'legacy', carrier: 'dependent-shared' },
  { client: 'v2', era: 'legacy', carrier: 'dependent-each' },
  { client: 'v2', era: 'legacy', carrier: 'state' },
];

describe.each(HOSTS)('a pending round in a session ($client, $era, $carrier)', ({ client, era, carrier }) => {
  const open = async (url: URL, store = memoryStore(), ask: Ask = leave) => {
    const valise = await openValise({ store, ...(carrier && { carriers: [carrier] }) });
    const host = askable(client, era, ask);
    await valise.connect(host, url, { resume: false });
    return { valise, host, sessions: valise.sessions(host), store };
  };

  describe.each(['greet', 'greet_gated'])('%s', (tool) => {
    it.each([
      { by: 'answers', answer: ada, kept: true },
      { by: 'the handlers of the client', answer: undefined, kept: true },
      { by: 'answers, in a session that nobody keeps', answer: ada, kept: false },
    ])('A round continues in its session in the next process, by $by', async ({ answer, kept }) => {
      const server = await stage({ sdk: 'v2', instances: 1, example: greeter });
      const url = server.urls[0] as URL;
      const first = await open(url);
      const session = await (kept ? first.sessions.named('diary') : first.sessions.create());
      await expect(session.run(() => callText(first.host, tool))).rejects.toThrow(/left open|waits/);
      const [round] = await first.valise.pending.list();
      expect(round?.session).toEqual({ id: session.id, label: kept ? 'diary' : undefined });
      await first.host.close();

      const second = await open(url, first.store, () => ada);
      expect(await second.valise.pending.answer(round!.id, answer)).toMatchObject({
        done: true,
        result: { content: [{ text: `Hello Ada of ${session.id}, 1.` }] },
      });
      expect(await second.valise.pending.list()).toEqual([]);
      if (kept) {
        // What the call did to the session has arrived here too.
        const again = await second.sessions.named('diary');
        expect(again.id).toBe(session.id);
        expect(await again.run(() => callText(second.host, 'count'))).toBe('1');
      }
      await second.host.close();
      await server.close();
    });
  });

  it('A pending round keeps its session, even one with expensive resources', async () => {
    const server = await stage({ sdk: 'v2', instances: 1, example: greeter });
    const first = await open(server.urls[0] as URL);
    await first.host.listTools();
    const session = await first.sessions.named('diary');
    await expect(session.run(() => callText(first.host, 'greet_costly'))).rejects.toThrow();
    await first.host.close();
    const second = await open(server.urls[0] as URL, first.store);
    const [round] = await second.valise.pending.list();
    expect(await second.valise.pending.answer(round!.id, ada)).toMatchObject({ done: true });
    await second.host.close();
    await server.close();
  });

  it('A pending round ends with its session', async () => {
    const server = await stage({ sdk: 'v2', instances: 1, example: greeter });
    const { valise, host, sessions } = await open(server.urls[0] as URL);
    const session = await sessions.named('diary');
    await expect(session.run(() => callText(host, 'greet_gated'))).rejects.toThrow();
    const [round] = await valise.pending.list();
    await session.delete();
    await expect(valise.pending.answer(round!.id, ada)).rejects.toMatchObject({ code: 'session-gone' });
    expect(await valise.pending.list()).toEqual([]);
    await host.close();
    await server.close();
  });
});

describe('a round over stdio in a session', () => {
  it.each(['dependent-shared', 'state'] as const)(
    'A round over stdio is answered in its session (%s)',
    async (carrier) => {
      const valise = await openValise({ store: memoryStore(), carriers: [carrier] });
      const host = askable('v2', 'legacy', () => ada);
      await valise.connect(host, commandOf('greeter', '--stdio'));
      const session = await valise.sessions(host).create();
      expect(await session.run(() => callText(host, 'greet_gated'))).toBe(`Hello Ada of ${session.id}, 1.`);
      await host.close();
      await valise.close();
    },
  );
});

describe('a round that is answered while another call changes its session', () => {
  it.each(['dependent-shared', 'state'] as const)(
    'A round continues from the latest state of its session (%s)',
    async (carrier) => {
      const adder = createValise({ name: 'adder', sessions: {} });
      const server = adder.install(new McpServer({ name: 'adder', version: '1.0.0' }));
      const add = (number: number) => {
        const sum = (adder.session()?.get<number>('sum') ?? 0) + number;
        adder.session()?.set('sum', sum);
        return { content: [{ type: 'text' as const, text: String(sum) }] };
      };
      let isAdding = false;
      let goOn = (): void => {};
      const told = new Promise<void>((resolve) => {
        goOn = resolve;
      });
      server.registerTool('add_ten', {}, async () => {
        isAdding = true;
        await told;
        return add(10);
      });
      const asking = adder.flow(async (flow) => {
        await flow.ask('sure', { message: 'Sure?', schema: { type: 'object', properties: {} } });
        return add(1);
      });
      server.registerTool('add_one', {}, asking);
      const valise = await openValise({ store: memoryStore(), carriers: [carrier] });
      const host = askable('v2', 'legacy', leave);
      const [near, far] = InMemoryTransport.createLinkedPair();
      await server.connect(far);
      await valise.connect(host, near as never);
      const session = await valise.sessions(host).create({ ordering: 'serial' });
      await expect(session.run(() => callText(host, 'add_one'))).rejects.toThrow();
      const [round] = await valise.pending.list();
      const ten = session.run(() => callText(host, 'add_ten'));
      await vi.waitFor(() => expect(isAdding).toBe(true));
      const answered = valise.pending.answer(round!.id, ada);
      // It is on its way: a call that is made later comes after it.
      await host.ping();
      goOn();
      expect([await ten, await answered]).toMatchObject(['10', { result: { content: [{ text: '11' }] } }]);
      await host.close();
      await valise.close();
    },
  );
});
