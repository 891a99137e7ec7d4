import { InMemoryTransport } from '@modelcontextprotocol/client';
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { LeaveOpen, openValise, SessionConflictError } from 'mcp-valise/client';
import type { Carrier } from 'mcp-valise/internal';
import { createValise } from 'mcp-valise/server';
import { memoryStore, type Store, ValiseError } from 'mcp-valise/store';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { callText } from '../e2e/hosts.ts';
import { type Ask, askable } from '../e2e/rounds-stage.ts';

const HOSTS: {
  readonly client: 'v1' | 'v2';
  readonly era: 'legacy' | 'modern';
  readonly carrier?: Carrier;
}[] = [
  { client: 'v2', era: 'modern' },
  { client: 'v1', era: 'legacy', carrier: 'dependent-shared' },
  { client: 'v2', era: 'legacy', carrier: 'state' },
];

const leave: Ask = () => {
  throw new LeaveOpen();
};
const ada = { action: 'accept', content: { name: 'Ada' } };

/** A store some of whose keys can be cut off. */
function cuttable() {
  const cut: { off: RegExp | undefined; outcome: 'not-done' | 'unknown' } = {
    off: undefined,
    outcome: 'not-done',
  };
  const gone = () => Promise.reject(new ValiseError('store-unavailable', 'gone', { outcome: cut.outcome }));
  const get = (store: Store, method: keyof Store) => {
    const own = (store[method] as (...args: unknown[]) => unknown).bind(store);
    return (...args: unknown[]) => (cut.off?.test(String(args[0])) ? gone() : own(...args));
  };
  return { store: new Proxy(memoryStore(), { get } as ProxyHandler<Store>), cut };
}

describe.each(HOSTS)('an answer that has no effect ($client, $era, $carrier)', (kind) => {
  const open = async (ask: (cut: { off: RegExp | undefined }) => Ask) => {
    const { store, cut } = cuttable();
    // Set while the handler is at work, it takes away what its call is to be kept in.
    const working: { cuts: RegExp | undefined; pause: (() => Promise<void>) | undefined } = {
      cuts: undefined,
      pause: undefined,
    };
    const desk = createValise({ name: 'desk', store, sessions: { mode: 'stored', onConflict: 'fail' } });
    const serve = () => {
      const server = desk.install(new McpServer({ name: 'desk', version: '1.0.0' }));
      const name = {
        message: 'Who?',
        schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
      } as const;
      const greet = desk.flow(async (flow) => {
        const { name: who } = await flow.ask('name', name);
        cut.off = working.cuts;
        const count = desk.session()?.get<number>('count') ?? 0;
        desk.session()?.set('count', count + 1);
        await working.pause?.();
        return { content: [{ type: 'text' as const, text: `Hello ${who}.` }] };
      });
      server.registerTool('greet', {}, greet as never);
      server.registerTool('change', {}, async () => {
        desk.session()?.set('count', 5);
        return { content: [] };
      });
      const fail = desk.flow(async (flow) => {
        await flow.ask('name', name);
        throw new Error('No such draft.');
      });
      server.registerPrompt('draft', {}, fail as never);
      return server;
    };
    const valise = await openValise({
      store: memoryStore(),
      ...(kind.carrier && { carriers: [kind.carrier] }),
    });
    const host = askable(kind.client, kind.era, ask(cut));
    const [near, far] = InMemoryTransport.createLinkedPair();
    if (kind.era === 'modern') serveStdio(serve, { transport: far });
    else await serve().connect(far);
    await valise.connect(host, near as never);
    onTestFinished(async () => {
      await host.close();
      await valise.close();
    });
    return { valise, host, cut, working };
  };

  it('A round stays pending if the store of the server fails', async () => {
    const { valise, host, cut } = await open(() => leave);
    await expect(callText(host, 'greet')).rejects.toThrow();
    const [round] = await valise.pending.list();
    cut.off = /./;
    await expect(valise.pending.answer(round!.id, ada)).rejects.toMatchObject({
      rpcCode: -32603,
      data: { 'dev.valise/outcome': 'not-done' },
    });
    cut.off = undefined;
    expect(await valise.pending.list()).toEqual([round]);
    expect(await valise.pending.answer(round!.id, ada)).toMatchObject({
      done: true,
      result: { content: [{ text: 'Hello Ada.' }] },
    });
    expect(await valise.pending.list()).toEqual([]);
  });

  it('A round stays pending if its answer came from a handler, and the error of the call names it', async () => {
    const { valise, host, cut } = await open((store) => () => {
      store.off = /./;
      return ada;
    });
    const error = await callText(host, 'greet').catch((failed: unknown) => failed);
    cut.off = undefined;
    const [round] = await valise.pending.list();
    expect(error).toMatchObject({
      message: expect.stringContaining('Internal error'),
      data: { pending: round!.id },
    });
    expect(await valise.pending.answer(round!.id, ada)).toMatchObject({ done: true });
    expect(await valise.pending.list()).toEqual([]);
  });

  it('A round stays pending if the session could not be saved', async () => {
    const { valise, host, cut, working } = await open(() => () => ada);
    const session = await valise.sessions(host).create();
    working.cuts = /^sessions\//;
    const error = await session.run(() => callText(host, 'greet')).catch((failed: unknown) => failed);
    working.cuts = undefined;
    cut.off = undefined;
    const [round] = await valise.pending.list();
    expect(error).toMatchObject({
      message: expect.stringContaining('Internal error'),
      data: { pending: round!.id },
    });
    expect(await valise.pending.answer(round!.id, ada)).toMatchObject({
      done: true,
      result: { content: [{ text: 'Hello Ada.' }] },
    });
  });

  it('A round ends with an error if it is unknown whether the session was saved', async () => {
    const { valise, host, cut, working } = await open(() => () => ada);
    const session = await valise.sessions(host).create();
    cut.outcome = 'unknown';
    working.cuts = /^sessions\//;
    const error = await session.run(() => callText(host, 'greet')).catch((failed: unknown) => failed);
    cut.off = undefined;
    expect(error).toMatchObject({
      message: expect.stringContaining('does not know whether it took effect'),
      data: { 'dev.valise/outcome': 'unknown' },
    });
    expect(error).not.toHaveProperty('data.pending');
    expect(await valise.pending.list()).toEqual([]);
  });

  it('A round stays pending if another call changed the session meanwhile, and the error names it', async () => {
    const { valise, host, working } = await open(() => () => ada);
    const session = await valise.sessions(host).create();
    let goOn = (): void => {};
    const pause = vi.fn(() => new Promise<void>((resolve) => (goOn = resolve)));
    working.pause = pause;
    const called = session.run(() => callText(host, 'greet')).catch((failed: unknown) => failed);
    await vi.waitFor(() => expect(pause).toHaveBeenCalled());
    await session.run(() => host.callTool({ name: 'change' }));
    goOn();
    const error = await called;
    working.pause = undefined;
    const [round] = await valise.pending.list();
    expect(error).toBeInstanceOf(SessionConflictError);
    expect(error).toMatchObject({ data: { pending: round!.id } });
    expect(await valise.pending.answer(round!.id, ada)).toMatchObject({ done: true });
  });

  it('A handler that fails by itself ends its call and its round', async () => {
    const { valise, host } = await open(() => () => ada);
    await expect(host.getPrompt({ name: 'draft' })).rejects.toMatchObject({ code: -32603 });
    expect(await valise.pending.list()).toEqual([]);
  });
});
