import { randomUUID } from 'node:crypto';
import { generateKey } from 'mcp-valise/seal';
import {
  createValise,
  type Flow,
  idempotent,
  type ServerValise,
  type ServerValiseOptions,
} from 'mcp-valise/server';
import { memoryStore, type Store } from 'mcp-valise/store';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { z } from 'zod';
import { readSessionResult } from '../../src/wire/index.ts';
import { because } from '../skip.ts';
import { cuttable } from './cuttable-store.ts';
import { accept, name as question } from './flow-peer.ts';
import { MAJORS } from './majors.ts';
import { type RawClient, rawClient } from './raw-client.ts';

const KEYS = generateKey();
const KEY = 'dev.valise/idempotencyKey';
const REPEAT = 'dev.valise/repeat';
const OUTCOME = 'dev.valise/outcome';
const ENVELOPES = {
  '2025-11-25': {},
  '2026-07-28': {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
  },
};

const text = (words: string) => ({ content: [{ type: 'text' as const, text: words }] });
const gate = () => {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => void (open = resolve));
  return { opened, open: () => open() };
};

const CELLS = MAJORS.flatMap((major) =>
  (['2025-11-25', '2026-07-28'] as const).map((version) => ({ ...major, version })),
);

describe.each(CELLS)('idempotent calls (SDK $major, $version)', (cell) => {
  type Register = (server: InstanceType<typeof cell.McpServer>, valise: ServerValise) => void;
  interface Instance extends RawClient {
    readonly valise: ServerValise;
    readonly rejected: string[];
    /** Calls `charge` and returns the response. */
    charge(meta?: object, args?: object, params?: object): Promise<Wire>;
    /** Ends the connection from the server's side. */
    hangUp(): Promise<void>;
  }
  // biome-ignore lint/suspicious/noExplicitAny: tests look into messages of every shape
  type Wire = any;

  const instance = async (
    register: Register,
    options: Partial<ServerValiseOptions> & { store: Store },
  ): Promise<Instance> => {
    const rejected: string[] = [];
    const valise = createValise({
      name: 'shop',
      keys: KEYS,
      events: { warning: () => {}, rejected: ({ reason }) => rejected.push(reason) },
      ...options,
    });
    const server = valise.install(new cell.McpServer({ name: 'shop', version: '1.0.0' }));
    register(server, valise);
    const [near, far] = cell.Memory.createLinkedPair();
    await server.connect(far);
    const client = await rawClient(near as never, { elicitation: {} });
    onTestFinished(() => server.close());
    return {
      ...client,
      valise,
      rejected,
      charge: (meta = {}, args = { cents: 5 }, params = {}) =>
        client.request('tools/call', {
          name: 'charge',
          arguments: args,
          ...params,
          _meta: { ...ENVELOPES[cell.version], ...meta },
        }) as Promise<Wire>,
      hangUp: () => server.close(),
    };
  };
  const inputSchema = z.looseObject({});
  const declared =
    (handler: (args: never) => unknown, options?: object): Register =>
    (server, valise) =>
      void server.registerTool(
        'charge',
        { inputSchema },
        valise.idempotent('charge', handler as never, options) as never,
      );
  const key = () => ({ [KEY]: randomUUID() });
  const count = () => vi.fn(async () => text(`paid ${randomUUID()}`));
  const principal = (subject: string) => ({ principal: () => ({ subject }) });

  it('[I-01] an idempotent call runs once, and a repeated one gets the recorded result, also on another instance', async () => {
    const store = memoryStore();
    const effect = count();
    const one = await instance(declared(effect), { store });
    const two = await instance(declared(effect), { store });
    const meta = key();
    const first = await one.charge(meta);
    expect(first.result.content[0].text).toMatch(/^paid /);
    expect((await one.charge({ ...meta, [REPEAT]: true })).result.content).toEqual(first.result.content);
    expect((await two.charge({ ...meta, [REPEAT]: true })).result.content).toEqual(first.result.content);
    expect(effect).toHaveBeenCalledTimes(1);
    await two.charge(key());
    expect(effect).toHaveBeenCalledTimes(2);
  });

  it('a tool may be declared idempotent in its config, and the server announces it', async () => {
    const store = memoryStore();
    const effect = count();
    const one = await instance(
      (server) =>
        void server.registerTool('charge', { inputSchema, _meta: { ...idempotent } }, effect as never),
      { store },
    );
    expect(one.initialized['capabilities']).toMatchObject({ extensions: { 'dev.valise/idempotency': {} } });
    const meta = key();
    expect((await one.charge(meta)).result.content).toEqual((await one.charge(meta)).result.content);
    expect(effect).toHaveBeenCalledTimes(1);
  });

  it('[I-10] a server without idempotent tools runs every call that is not marked as repeated, refuses the marked ones, and announces nothing', async () => {
    const effect = count();
    const one = await instance(
      (server) => void server.registerTool('charge', { inputSchema }, effect as never),
      { store: memoryStore() },
    );
    expect(JSON.stringify(one.initialized)).not.toContain('dev.valise/idempotency');
    const meta = key();
    await one.charge(meta);
    await one.charge(meta);
    expect(effect).toHaveBeenCalledTimes(2);
    const { error } = await one.charge({ ...meta, [REPEAT]: true });
    expect(error.data).toEqual({ code: 'not-repeatable', [OUTCOME]: 'unknown' });
    expect(effect).toHaveBeenCalledTimes(2);
  });

  it('[I-02] a repeated call joins the one that still runs, on the same instance and on another', async () => {
    const store = memoryStore();
    const { opened, open } = gate();
    const effect = vi.fn(async () => opened.then(() => text('paid')));
    const one = await instance(declared(effect), { store });
    const two = await instance(declared(effect), { store });
    const meta = key();
    const all = [one.charge(meta)];
    await expect.poll(() => effect.mock.calls.length).toBe(1);
    all.push(one.charge(meta), two.charge(meta), two.charge({ ...meta, [REPEAT]: true }));
    open();
    for (const { result } of await Promise.all(all)) expect(result.content[0].text).toBe('paid');
    expect(effect).toHaveBeenCalledTimes(1);
  });

  it('[I-02] a repeated call waits no longer than `join` for the one that still runs', async () => {
    const store = memoryStore();
    const { opened, open } = gate();
    const effect = vi.fn(async () => opened.then(() => text('paid')));
    const one = await instance(declared(effect), { store, idempotency: { join: 0.05 } });
    const two = await instance(declared(effect), { store, idempotency: { join: 0.05 } });
    const meta = key();
    const first = one.charge(meta);
    await expect.poll(() => effect.mock.calls.length).toBe(1);
    for (const each of [one, two])
      expect((await each.charge(meta)).error.data).toEqual({ code: 'still-running', [OUTCOME]: 'unknown' });
    open();
    expect((await two.charge(meta)).result ?? (await first).result).toMatchObject(text('paid'));
    expect(effect).toHaveBeenCalledTimes(1);
  });

  it('[I-03] the outcome of a call is unknown if its completion could not be recorded', async () => {
    const { store, cut } = cuttable();
    const effect = vi.fn(async () => {
      cut.off = true;
      return text('paid');
    });
    const one = await instance(declared(effect), { store });
    const meta = key();
    expect((await one.charge(meta)).result.content[0].text).toBe('paid');
    cut.off = false;
    for (let times = 0; times < 2; times++)
      expect((await one.charge(meta)).error).toMatchObject({
        message: expect.stringContaining('does not know whether it took effect'),
        data: { code: 'outcome-unknown', [OUTCOME]: 'unknown' },
      });
    expect(effect).toHaveBeenCalledTimes(1);
  }, 20_000);

  it('[I-06] a call that cannot be recorded first does not run, and runs when the store is available again', async () => {
    const { store, cut } = cuttable();
    const effect = count();
    const one = await instance(declared(effect), { store });
    const meta = key();
    cut.off = true;
    expect((await one.charge(meta)).error.data).toMatchObject({ [OUTCOME]: 'not-done' });
    expect(effect).not.toHaveBeenCalled();
    cut.off = false;
    expect((await one.charge(meta)).result).toBeDefined();
  });

  it('[I-04] a call with the key of a different call is refused', async () => {
    const effect = count();
    const one = await instance(declared(effect), { store: memoryStore() });
    const meta = key();
    await one.charge(meta, { cents: 5, to: 'a' });
    // The order of arguments means nothing.
    expect((await one.charge(meta, { to: 'a', cents: 5 })).result).toBeDefined();
    const { error } = await one.charge(meta, { cents: 6, to: 'a' });
    expect(error).toMatchObject({ code: -32602, data: { code: 'key-reused', [OUTCOME]: 'not-done' } });
    expect(effect).toHaveBeenCalledTimes(1);
    expect(one.rejected).toEqual(['key-reused']);
  });

  it('[I-05] an idempotency key belongs to its principal', async () => {
    const store = memoryStore();
    const effect = count();
    const ann = await instance(declared(effect), { store, ...principal('ann') });
    const ben = await instance(declared(effect), { store, ...principal('ben') });
    const meta = { [KEY]: '1' };
    const own = (await ann.charge(meta)).result.content;
    expect((await ben.charge(meta)).result.content).not.toEqual(own);
    expect((await ann.charge(meta)).result.content).toEqual(own);
    expect(effect).toHaveBeenCalledTimes(2);
  });

  it('equal calls of one principal without a key count as one call within the window of the tool', async () => {
    const store = memoryStore();
    const effect = count();
    const tool = declared(effect, { window: '10m' });
    const ann = await instance(tool, { store, ...principal('ann') });
    const ben = await instance(tool, { store, ...principal('ben') });
    const own = (await ann.charge()).result.content;
    expect((await ann.charge()).result.content).toEqual(own);
    expect(effect).toHaveBeenCalledTimes(1);
    await ann.charge({}, { cents: 6 });
    await ben.charge();
    expect(effect).toHaveBeenCalledTimes(3);
  });

  it('[I-05] an anonymous caller needs a long idempotency key', async () => {
    const effect = count();
    const one = await instance(declared(effect, { window: '10m' }), { store: memoryStore() });
    await one.charge();
    await one.charge();
    expect(effect).toHaveBeenCalledTimes(2);
    for (const bad of ['1', 'order-17', 'a b'.padEnd(30, 'c'), 'x'.repeat(256), 7])
      expect((await one.charge({ [KEY]: bad })).error.data.code).toBe('invalid-key');
    expect(effect).toHaveBeenCalledTimes(2);
    // Hosts may write the key without a prefix.
    const plain = { idempotencyKey: randomUUID() };
    expect((await one.charge(plain)).result.content).toEqual((await one.charge(plain)).result.content);
    expect(effect).toHaveBeenCalledTimes(3);
  });

  it('[I-01] an error result of the tool is recorded', async () => {
    const effect = vi.fn(async () => {
      throw new Error(`declined ${effect.mock.calls.length}`);
    });
    const one = await instance(declared(effect), { store: memoryStore() });
    const meta = key();
    const first = (await one.charge(meta)).result;
    expect(first).toMatchObject({ isError: true, content: [{ text: 'declined 1' }] });
    expect((await one.charge(meta)).result).toMatchObject(first);
  });

  it('[I-06] a call that was refused before it ran can be repeated', async () => {
    const effect = count();
    const one = await instance(
      (server, valise) => {
        declared(effect)(server, valise);
        valise.sessions.require('charge');
      },
      { store: memoryStore(), sessions: {} },
    );
    const meta = key();
    const session = 'io.modelcontextprotocol/session';
    const { error } = await one.charge({ ...meta, [session]: { sessionId: 'gone' } });
    expect(error.message).toMatch(/session/i);
    expect(effect).not.toHaveBeenCalled();
    const created = (await one.request('sessions/create', { _meta: ENVELOPES[cell.version] })) as Wire;
    const { sessionId, state } = readSessionResult(created.result) as Wire;
    const own = { ...meta, [session]: { sessionId, state } };
    const first = (await one.charge(own)).result;
    expect(first.content[0].text).toMatch(/^paid/);
    expect((await one.charge(own)).result.content).toEqual(first.content);
    expect(effect).toHaveBeenCalledTimes(1);
  });

  it('[I-02] a repeated call gets the result of the call whose client hung up', async () => {
    const store = memoryStore();
    const { opened, open } = gate();
    const effect = vi.fn(async () => opened.then(() => text('paid')));
    const one = await instance(declared(effect), { store });
    const two = await instance(declared(effect), { store });
    const meta = key();
    void one.charge(meta);
    await expect.poll(() => effect.mock.calls.length).toBe(1);
    await one.hangUp();
    const repeated = two.charge({ ...meta, [REPEAT]: true });
    open();
    expect((await repeated).result.content[0].text).toBe('paid');
    expect(effect).toHaveBeenCalledTimes(1);
  });

  it('[I-03] the outcome of a call is unknown if its client hung up and its handler is unknown', async () => {
    const store = memoryStore();
    const { opened, open } = gate();
    const effect = vi.fn(async () => opened.then(() => text('paid')));
    const tool: Register = (server) =>
      void server.registerTool('charge', { inputSchema, _meta: { ...idempotent } }, effect as never);
    const one = await instance(tool, { store });
    const two = await instance(tool, { store });
    const meta = key();
    void one.charge(meta);
    await expect.poll(() => effect.mock.calls.length).toBe(1);
    await one.hangUp();
    expect((await two.charge({ ...meta, [REPEAT]: true })).error.data.code).toBe('outcome-unknown');
    open();
    expect(effect).toHaveBeenCalledTimes(1);
  });

  it('[I-07] recorded results stay within the limits', async () => {
    const effect = vi.fn(async () => text('x'.repeat(5000)));
    const store = memoryStore();
    const limits = { recordBytes: 2000, perCaller: { records: 2 }, total: { records: 10 } };
    const one = await instance(declared(effect), { store, idempotency: { limits } });
    const meta = key();
    expect((await one.charge(meta)).result.content[0].text).toHaveLength(5000);
    expect((await one.charge(meta)).error.data).toEqual({ code: 'result-not-kept', [OUTCOME]: 'unknown' });
    await one.charge(key());
    const { error } = await one.charge(key());
    expect(error.data).toEqual({ code: 'limit-reached', [OUTCOME]: 'not-done' });
    expect(effect).toHaveBeenCalledTimes(2);
  });

  it('[I-07] recorded results are sealed in the store, so that nobody else can write one', async () => {
    const store = memoryStore();
    const effect = vi.fn(async () => text('secret number 42'));
    const one = await instance(declared(effect), { store });
    const meta = key();
    const other = key();
    await one.charge(meta);
    const { keys: before } = await store.list('idempotency/');
    await one.charge(other);
    const { keys: after } = await store.list('idempotency/');
    const [mine] = before as [string];
    const its = after.find((each) => each !== mine) as string;
    const value = (await store.get(mine))?.value;
    expect(JSON.stringify(value)).not.toContain('secret');
    expect(mine).not.toContain(meta[KEY]);
    // A record that was moved to another key opens nowhere.
    await store.put(its, value as string);
    expect((await one.charge(other)).error.data.code).toBe('outcome-unknown');
    expect(effect).toHaveBeenCalledTimes(2);
  });

  it('[I-07] a call runs again when its record has expired', async () => {
    const effect = count();
    const one = await instance(declared(effect), { store: memoryStore(), idempotency: { keep: 0.05 } });
    const meta = key();
    await one.charge(meta);
    await expect
      .poll(async () => {
        await one.charge(meta);
        return effect.mock.calls.length;
      })
      .toBe(2);
  });

  it.runIf(cell.version === '2026-07-28')(
    '[I-08] a repeated call asks the same question again, and ends with one result',
    because('a question is a result of its own on 2026-07-28 only'),
    async () => {
      const store = memoryStore();
      const effect = vi.fn();
      const one = await instance(
        (server, valise) =>
          void server.registerTool(
            'charge',
            { inputSchema },
            valise.idempotent(
              'charge',
              valise.flow(async (_: unknown, flow: Flow) => {
                await flow.ask('who', question);
                effect();
                return text('paid');
              }) as never,
            ) as never,
          ),
        { store },
      );
      const meta = key();
      const asked = (await one.charge(meta)).result;
      expect(asked.resultType).toBe('input_required');
      expect((await one.charge({ ...meta, [REPEAT]: true })).result.requestState).toBe(asked.requestState);
      const answer = { requestState: asked.requestState, inputResponses: { who: accept({ name: 'Ann' }) } };
      const final = (await one.charge(meta, undefined, answer)).result;
      expect(final.content[0].text).toBe('paid');
      expect((await one.charge(meta, undefined, answer)).result.content).toEqual(final.content);
      expect((await one.charge({ ...meta, [REPEAT]: true })).result.content).toEqual(final.content);
      expect(effect).toHaveBeenCalledTimes(1);
    },
  );
});

describe('valise.idempotent', () => {
  it('valise.idempotent() refuses to work without a store', () => {
    const valise = createValise({ name: 'shop', keys: 'ephemeral' });
    expect(() => valise.idempotent('charge', () => text('paid'))).toThrow(/without a store/);
  });

  it('valise.idempotent() checks its arguments and options', () => {
    const valise = createValise({ name: 'shop', keys: 'ephemeral', store: memoryStore() });
    expect(() => valise.idempotent(7 as never, () => text('paid'))).toThrow(/idempotent/);
    expect(() => valise.idempotent('charge', () => text('paid'), { window: 'soon' })).toThrow(/duration/);
    expect(() => createValise({ name: 'shop', keys: 'ephemeral', idempotency: { keep: 'x' } })).toThrow(
      /duration/,
    );
    const limited = (limits: object) => () =>
      createValise({ name: 'shop', keys: 'ephemeral', idempotency: { limits } });
    expect(limited({ recordBytes: 2 ** 21 })).toThrow(/idempotency\.limits\.recordBytes/);
    expect(limited({ perCaller: { records: -1 } })).toThrow(/idempotency\.limits\.perCaller/);
    expect(limited({ perCaller: { waiting: 1 } })).toThrow(/waiting/);
  });
});
