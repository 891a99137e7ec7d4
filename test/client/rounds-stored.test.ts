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

/** What comes of an answer, in place of the call's result. */
interface Said {
  error?: { readonly code: number; readonly message: string };
  /** By an answer that comes without its call. */
  messages?: readonly string[];
}

/** Asks once in each call. */
async function asker(form: Form, said: Said = {}) {
  let called: unknown;
  const server = await rawServer(({ message: { id, method, params: given, dependent_responses } }) => {
    const about = { capabilities: { tools: {} }, serverInfo: { name: 'raw', version: '1' } };
    const complete = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
    if (method === 'server/discover')
      return print(id, { result: { ...complete, ...about, supportedVersions: ['2026-07-28'] } });
    if (method === 'tools/list') return print(id, { result: { ...complete, tools: [] } });
    const isAnswer = id === 'q' || dependent_responses || given?.inputResponses;
    if (isAnswer && said.error) return print(id === 'q' ? called : id, { error: said.error });
    if (id === 'q') return said.messages ?? result(called, 'done');
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

/** A store that keeps rounds for ever, until it may `forget` them. */
function unforgetting() {
  const store = memoryStore();
  const remove = store.delete.bind(store);
  let forgets = false;
  store.delete = async (key, ...rest) => {
    if (key.startsWith('rounds/pending/') && !forgets) throw new Error('disk full');
    return remove(key, ...rest);
  };
  return { store, forget: (does = true) => (forgets = does) };
}

const leave = (): never => {
  throw new LeaveOpen();
};

describe.each(CASES)('a $form question to a $client client', ({ client, era, form }) => {
  const open = async (store: Store, ask: Ask, said?: Said) => {
    const server = await asker(form, said);
    const valise = await openValise({ store });
    const asked = vi.fn(ask);
    const host = askable(client, era, asked);
    onTestFinished(() => host.close());
    await valise.connect(host, server.url, { resume: false });
    return { server, valise, asked, host };
  };

  it('A question reaches the handler only after it is stored', async () => {
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

  it('A question is asked even if the store fails, and a warning says so', async () => {
    const { store, settle } = heldStore();
    settle(new Error('disk full'));
    const { valise, asked, host } = await open(store, () => accept);
    const warned = vi.fn();
    valise.on('warning', warned);
    expect(await callText(host, 'any')).toBe('done');
    expect(asked).toHaveBeenCalledOnce();
    expect(warned).toHaveBeenCalledWith({
      code: 'question-not-kept',
      what: 'A question could not be stored and will be gone when this process exits: disk full',
      next: expect.stringContaining('store'),
    });
    expect(await valise.pending.list()).toEqual([]);
  });

  it('A question cannot be left open if the store fails', async () => {
    const { store, settle } = heldStore();
    settle(new Error('disk full'));
    const { host } = await open(store, () => {
      throw new LeaveOpen();
    });
    const error = await callText(host, 'any').catch((failed: unknown) => failed);
    expect(error).toMatchObject({ message: expect.stringContaining('left open') });
    expect(error).not.toHaveProperty('data.pending');
  });

  it('A question is not asked if the call is canceled before it is stored', async () => {
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

  it('An answer is returned even if the store cannot delete the question, and a warning says so', async () => {
    const { store, forget } = unforgetting();
    const said: Said = {};
    const { valise, host } = await open(store, leave, said);
    const warned = vi.fn();
    valise.on('warning', warned);
    const leftOpen = async () => {
      await expect(callText(host, 'any')).rejects.toThrow('valise.pending.answer');
      const [round] = await valise.pending.list();
      return round!.id;
    };
    const id = await leftOpen();
    expect(await valise.pending.answer(id, accept)).toMatchObject({
      done: true,
      result: { content: [{ text: 'done' }] },
    });
    expect(warned).toHaveBeenCalledWith({
      code: 'question-not-kept',
      what: 'A question that was answered could not be dropped and is still listed: disk full',
      next: expect.stringContaining('store'),
    });
    forget();
    await valise.pending.drop(id);
    const other = await leftOpen();
    forget(false);
    said.error = { code: -32_602, message: 'Too late' };
    await expect(valise.pending.answer(other, accept)).rejects.toThrow('Too late');
  });

  it('A call fails with the error of its handler even if the store cannot delete the question', async () => {
    const { store } = unforgetting();
    const { host } = await open(store, () => {
      throw new Error('no screen');
    });
    // In the form of a question by itself, the server hears of it.
    if (form === 'state' || form === 'dependent') expect(await callText(host, 'any')).toBe('done');
    else await expect(callText(host, 'any')).rejects.toThrow('no screen');
  });

  it('A question waits for the next process if the connection closes before it is stored', async () => {
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

describe.each(['v1', 'v2'] as const)('an answer to a question with a state, from a %s client', (client) => {
  it.each([
    { what: 'a ping', message: { id: 'p', method: 'ping' } },
    { what: 'a question that nobody can answer', message: { id: 'r', ...asking } },
    {
      what: 'a notification',
      message: { method: 'notifications/message', params: { level: 'info', data: 1 } },
    },
  ])('An answer counts as failed if only $what follows', async ({ message }) => {
    const server = await asker('state', { messages: [JSON.stringify({ jsonrpc: '2.0', ...message })] });
    const valise = await openValise({ store: memoryStore() });
    const host = askable(client, 'legacy', () => accept);
    onTestFinished(() => host.close());
    await valise.connect(host, server.url, { resume: false });
    const error = await callText(host, 'any').catch((failed: unknown) => failed);
    const [round] = await valise.pending.list();
    expect(error).toMatchObject({
      message: expect.stringContaining('broke off before the call was answered'),
      data: { pending: round!.id },
    });
  });
});
