import { LeaveOpen, openValise, type Store } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { callText } from '../e2e/hosts.ts';
import { type Ask, askable } from '../e2e/rounds-stage.ts';
import { rawServer, result } from './rounds-server.ts';

const CASES = [
  { client: 'v1', era: 'legacy', form: 'state' },
  { client: 'v2', era: 'legacy', form: 'state' },
  { client: 'v1', era: 'legacy', form: 'dependent' },
  { client: 'v2', era: 'legacy', form: 'dependent' },
  { client: 'v2', era: 'modern', form: 'input' },
  { client: 'v2', era: 'modern', form: 'input without a context' },
] as const;

type Form = (typeof CASES)[number]['form'];

const params = { message: 'Name?', requestedSchema: { type: 'object', properties: {} } };
const asking = { method: 'elicitation/create', params };
const accept = { action: 'accept', content: {} };
const print = (id: unknown, rest: object): string => JSON.stringify({ jsonrpc: '2.0', id, ...rest });

function question(form: Form, id: unknown): string {
  if (form === 'state') return print('q', { ...asking, state: 's' });
  if (form === 'dependent') return print(id, { dependent_requests: { state: 's', requests: [asking] } });
  const requestState = form === 'input' ? { requestState: 's' } : {};
  return print(id, {
    result: { resultType: 'input_required', inputRequests: { a: asking }, ...requestState },
  });
}

/** Asks once in each call. */
async function asker(form: Form) {
  let called: unknown;
  const server = await rawServer(({ message: { id, method, params: given, dependent_responses } }) => {
    const about = { capabilities: { tools: {} }, serverInfo: { name: 'raw', version: '1' } };
    const complete = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
    if (method === 'server/discover')
      return print(id, { result: { ...complete, ...about, supportedVersions: ['2026-07-28'] } });
    if (method === 'tools/list') return print(id, { result: { ...complete, tools: [] } });
    if (id === 'q') return result(called, 'done');
    if (dependent_responses || given?.inputResponses)
      return print(id, { result: { ...complete, content: [{ type: 'text', text: 'done' }] } });
    called = id;
    return [question(form, id)];
  });
  onTestFinished(() => server.close());
  return server;
}

/** A store that keeps a round only when it is told to, or fails to. */
function heldStore() {
  const store = memoryStore();
  const put = store.put.bind(store);
  let reached = () => {};
  const puts = new Promise<void>((resolve) => (reached = resolve));
  let settle: (fails?: Error) => void = () => {};
  const told = new Promise<Error | undefined>((resolve) => (settle = resolve));
  store.put = async (key, ...rest) => {
    if (key.startsWith('rounds/pending/')) {
      reached();
      const failure = await told;
      if (failure) throw failure;
    }
    return put(key, ...rest);
  };
  return { store, puts, settle };
}

describe.each(CASES)('a $form question to a $client client', ({ client, era, form }) => {
  const open = async (store: Store, ask: Ask) => {
    const server = await asker(form);
    const valise = await openValise({ store });
    const asked = vi.fn(ask);
    const host = askable(client, era, asked);
    onTestFinished(() => host.close());
    await valise.connect(host, valise.http(server.url, { resume: false }));
    return { server, valise, asked, host };
  };

  it('reaches the handler once it is stored, and not before', async () => {
    const { store, puts, settle } = heldStore();
    const { valise, asked, host } = await open(store, () => accept);
    const call = callText(host, 'any');
    await puts;
    // Whatever is not held back has arrived by the time that another request has been answered.
    await host.listTools();
    expect(asked).not.toHaveBeenCalled();
    settle();
    expect(await call).toBe('done');
    expect(asked).toHaveBeenCalledOnce();
    await vi.waitFor(async () => expect(await valise.pending.list()).toEqual([]));
  });

  it('is asked all the same where the store fails, and somebody hears of that', async () => {
    const { store, settle } = heldStore();
    settle(new Error('disk full'));
    const { valise, asked, host } = await open(store, () => accept);
    const warned = vi.fn();
    valise.events.on('warning', warned);
    expect(await callText(host, 'any')).toBe('done');
    expect(asked).toHaveBeenCalledOnce();
    expect(warned).toHaveBeenCalledWith({
      what: 'A question could not be kept, and is lost if this process ends now: disk full',
      next: expect.stringContaining('store'),
    });
    expect(await valise.pending.list()).toEqual([]);
  });

  it('cannot be left open where the store fails', async () => {
    const { store, settle } = heldStore();
    settle(new Error('disk full'));
    const { host } = await open(store, () => {
      throw new LeaveOpen();
    });
    const error = await callText(host, 'any').catch((failed: unknown) => failed);
    expect(error).toMatchObject({ message: expect.stringContaining('left open') });
    expect(error).not.toHaveProperty('data.pending');
  });

  it('is asked of nobody where the call is cancelled before it is stored', async () => {
    const { store, puts, settle } = heldStore();
    const { valise, asked, host } = await open(store, () => accept);
    const stop = new AbortController();
    const options = { signal: stop.signal };
    const v1 = host.callTool.bind(host) as unknown as (...args: unknown[]) => Promise<unknown>;
    const call =
      client === 'v1' ? v1({ name: 'any' }, undefined, options) : host.callTool({ name: 'any' }, options);
    call.catch(() => {});
    await puts;
    stop.abort('enough');
    await expect(call).rejects.toThrow();
    settle();
    await vi.waitFor(async () => expect(await valise.pending.list()).toEqual([]));
    await host.listTools();
    expect(asked).not.toHaveBeenCalled();
    expect(await valise.pending.list()).toEqual([]);
  });

  it('waits for the next process where the connection closes before it is stored', async () => {
    const { store, puts, settle } = heldStore();
    const { valise, asked, host } = await open(store, () => accept);
    callText(host, 'any').catch(() => {});
    await puts;
    await host.close();
    settle();
    await vi.waitFor(async () => expect(await valise.pending.list()).toHaveLength(1));
    expect(asked).not.toHaveBeenCalled();
  });
});
