import { generateKey } from 'mcp-valise/seal';
import { createValise, type ServerValiseOptions } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { accept, type Wire } from './flow-peer.ts';
import { CARRIERS, call, endServers, FORMS, HEADERS, initialize, listen, post } from './http-stage.ts';

afterEach(endServers);

const VERSION = { 'mcp-protocol-version': '2025-03-26' };

describe.each(Object.entries(FORMS))('answers over HTTP (%s)', (_, form) => {
  const stage = async (options: Partial<ServerValiseOptions> = {}) => {
    const valise = createValise({ name: 'test', ...options });
    const url = await listen(form(valise));
    const open = async (capabilities: object, version = '2025-11-25') => {
      const { headers } = await post(url, initialize({ elicitation: {}, ...capabilities }, version));
      return { 'mcp-session-id': headers.get('mcp-session-id') as string };
    };
    /** Makes a call that asks: the question, and what comes after it. */
    const ask = async (headers: Record<string, string>, tool = 'ask') => {
      const response = await fetch(url, {
        method: 'POST',
        headers: { ...HEADERS, 'mcp-protocol-version': '2025-11-25', ...headers },
        body: JSON.stringify(call(tool)),
      });
      const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
      const event = (await reader.read()).value as string;
      const question = JSON.parse(/^data: (.+)$/m.exec(event)?.[1] as string) as Wire;
      const { id, state } = question;
      const answer = { jsonrpc: '2.0', id, ...(state && { state }), result: accept({ name: 'Ada' }) };
      return {
        question,
        answer,
        /** The id of the event that the question came in. */
        place: /^id: (.+)$/m.exec(event)?.[1] as string,
        next: async () => (await reader.read()).value ?? '',
        leave: () => reader.cancel(),
      };
    };
    return { valise, url, open, ask };
  };

  it('a batch with one answer counts as the answer', async () => {
    const { url, open, ask } = await stage({ store: memoryStore() });
    const carrying = { ...VERSION, ...(await open({ extensions: CARRIERS }, '2025-03-26')) };
    const { answer } = await ask(carrying);
    expect((await post(url, [answer], carrying)).message).toMatchObject({
      id: 7,
      result: { content: [{ text: 'hello Ada' }] },
    });

    const stock = { ...VERSION, ...(await open({}, '2025-03-26')) };
    const asked = await ask(stock);
    expect((await post(url, [asked.answer], stock)).status).toBe(202);
    expect(await asked.next()).toContain('hello Ada');
  });

  it('an answer in a larger batch is refused before anything runs, and can then be sent alone', async () => {
    const { valise, url, open, ask } = await stage({ store: memoryStore() });
    const ping = { jsonrpc: '2.0', id: 44, method: 'ping' };
    for (const capabilities of [{ extensions: CARRIERS }, {}]) {
      const headers = { ...VERSION, ...(await open(capabilities, '2025-03-26')) };
      const { answer, next } = await ask(headers);
      const before = valise.flows.counts();
      for (const batch of [
        [answer, ping],
        [ping, answer],
        [{ ...answer, state: undefined }, ping],
      ])
        expect(await post(url, batch, headers)).toMatchObject({
          status: 400,
          message: { error: { code: -32600, message: expect.stringContaining('one answer per POST') } },
        });
      expect(valise.flows.counts()).toEqual(before);
      const alone = await post(url, answer, headers);
      expect(alone.status === 202 ? await next() : alone.body).toContain('hello Ada');
    }
  });

  it('batches without answers are left to the SDK', async () => {
    const { url, open } = await stage();
    const headers = { ...VERSION, ...(await open({}, '2025-03-26')) };
    const { body } = await post(url, [call('plain'), { ...call('plain'), id: 8 }], headers);
    expect(body).toContain('"id":7');
    expect(body).toContain('"id":8');
  });

  it('an answer without its context is accepted in the session of the question, and in no other', async () => {
    const shared = { keys: generateKey(), store: memoryStore() };
    const [one, two] = await Promise.all([stage(shared), stage(shared)]);
    const session = await one.open({ extensions: CARRIERS });
    const { question, answer } = await one.ask(session);
    const { state: _, ...bare } = answer;
    const [flow, round] = (question.id as string).split('.').slice(1);
    const others = [await one.open({ extensions: CARRIERS }), await one.open({}), {}];
    for (const other of others)
      for (const id of [question.id, `valise.${flow}.${round}`])
        expect((await post(two.url, { ...bare, id }, other as Record<string, string>)).status).toBe(400);
    expect(two.valise.flows.counts()).toMatchObject({ answered: 0, refused: 6 });
    expect((await post(two.url, bare, session)).message).toMatchObject({
      id: 7,
      result: { content: [{ text: 'hello Ada' }] },
    });
  });

  it.each(['with a store', 'without one'])(
    'the first outcome stays until it is fetched, whatever is answered later (%s)',
    async (kind) => {
      const store = kind === 'with a store' ? memoryStore() : undefined;
      const { url, open, ask } = await stage({ store });
      const headers = await open({});
      const { answer, place, leave } = await ask(headers);
      await leave();
      expect((await post(url, answer, headers)).status).toBe(202);
      const other = await post(url, { ...answer, result: { action: 'decline' } }, headers);
      if (store) expect(other).toMatchObject({ status: 400, message: { error: { code: -32602 } } });
      await post(url, answer, headers);
      const mail = await fetch(url, {
        headers: { accept: 'text/event-stream', ...headers, 'last-event-id': place },
      });
      const body = await mail.text();
      expect(body).toContain('hello Ada');
      expect(body).not.toMatch(/declined|Invalid or expired/);
    },
  );

  describe('a call that its client has canceled', () => {
    const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } };

    it('canceling a call withdraws its question on the instance that holds the stream, and a later answer runs nothing', async () => {
      const shared = { keys: generateKey(), store: memoryStore() };
      const [one, two] = await Promise.all([stage(shared), stage(shared)]);
      const session = await one.open({});
      const { question, answer, next } = await one.ask(session);
      expect((await post(two.url, cancelled, session)).status).toBe(202);
      const event = await next();
      expect(JSON.parse(/^data: (.+)$/m.exec(event)?.[1] as string)).toMatchObject({
        method: 'notifications/cancelled',
        params: { requestId: question.id },
      });
      for (const { url, valise } of [one, two]) {
        expect(await post(url, answer, session)).toMatchObject({
          status: 400,
          message: { error: { code: -32602 } },
        });
        expect(valise.flows.counts()).toMatchObject({ answered: 0, refused: 1 });
      }
    });

    it('a canceled call is over on the same instance if there is no store', async () => {
      const { valise, url, open, ask } = await stage();
      const session = await open({});
      const { answer, next } = await ask(session);
      await post(url, cancelled, session);
      expect(await next()).toContain('notifications/cancelled');
      expect((await post(url, answer, session)).status).toBe(400);
      expect(valise.flows.counts()).toMatchObject({ answered: 0 });
    });

    it('a canceled call is over after its second question too', async () => {
      const { valise, url, open, ask } = await stage({ store: memoryStore() });
      const session = await open({});
      const { answer, next } = await ask(session, 'ask-twice');
      await post(url, answer, session);
      const { id } = JSON.parse(/^data: (.+)$/m.exec(await next())?.[1] as string) as Wire;
      await post(url, cancelled, session);
      expect(await next()).toContain('notifications/cancelled');
      expect((await post(url, { ...answer, id }, session)).status).toBe(400);
      expect(valise.flows.counts()).toMatchObject({ answered: 1 });
    });

    it('only the client of a call can cancel it, and no other call is canceled with it', async () => {
      const { url, open, ask } = await stage({ store: memoryStore() });
      const session = await open({});
      const { answer, next } = await ask(session);
      await post(url, cancelled, await open({}));
      await post(url, { ...cancelled, params: { requestId: '7' } }, session);
      await post(url, cancelled);
      expect((await post(url, answer, session)).status).toBe(202);
      expect(await next()).toContain('hello Ada');
    });
  });
});

it('a response from fetch, whose headers are immutable, still gets a session id', async () => {
  const valise = createValise({ name: 'test' });
  const edge = valise.http(async (_: Request) => fetch('data:application/json,{}'));
  const body = JSON.stringify(initialize({}));
  const response = await edge(
    new Request('http://localhost/mcp', { method: 'POST', headers: HEADERS, body }),
  );
  expect(response.status).toBe(200);
  expect(response.headers.get('mcp-session-id')).toMatch(/^v1\./);
  expect(await response.text()).toBe('{}');
});
