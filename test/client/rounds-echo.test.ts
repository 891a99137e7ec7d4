import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { CreateMessageRequestSchema, ListRootsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { type AnyClient, callText } from '../e2e/hosts.ts';
import { askable } from '../e2e/rounds-stage.ts';
import { rawServer, result } from './rounds-server.ts';

/** Texts that any parsing and printing would change, and a few that look like nothing. */
const STATES = [
  '"opaque"',
  '""',
  'null',
  '0',
  'false',
  '1.0',
  '9007199254740993',
  '1e400',
  '-0',
  '{"b":1,"a":2,"b":3}',
  '{ "spaced" :\t[ 1 , 2 ] }',
  '"\\u00e9\\/\\u0041 \\ud83d\\ude00"',
  '[]',
  '{"__proto__":{"x":1},"constructor":null}',
  `"${'x'.repeat(20_000)}"`,
  '{"state":{"state":"}]\\""}}',
];

const question = (state: string | undefined, id: string): string =>
  `{"jsonrpc":"2.0","id":"${id}","method":"elicitation/create",${
    state === undefined ? '' : `"state":${state},`
  }"params":{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}}`;

/** A client of the older era that answers one method of the server's. */
function answering(major: 'v1' | 'v2', method: string, answer: () => object): AnyClient {
  const info = { name: 'host', version: '1.0.0' };
  const capabilities = { sampling: {}, roots: {} };
  const v2 = new ClientV2(info, { capabilities, versionNegotiation: { mode: 'legacy' } });
  const v1 = new ClientV1(info, { capabilities });
  const schema = method === 'roots/list' ? ListRootsRequestSchema : CreateMessageRequestSchema;
  v1.setRequestHandler(schema, answer as never);
  v2.setRequestHandler(method as 'roots/list', answer as never);
  return major === 'v1' ? (v1 as unknown as AnyClient) : v2;
}

describe.each(['v1', 'v2'] as const)('a %s client', (client) => {
  const stage = async (script: Parameters<typeof rawServer>[0], answer: object = { action: 'decline' }) => {
    const server = await rawServer(script);
    const valise = await openValise({ store: memoryStore() });
    const host = askable(client, 'legacy', () => answer);
    await valise.connect(host, server.url, { resume: false });
    return { server, host, valise };
  };

  it.each(STATES)('[R-02][R-03][R-04][R-05] A client echoes the state %s exactly', async (state) => {
    let call: unknown;
    const { server, host } = await stage(({ message }) => {
      if (message.method === 'tools/call') {
        call = message.id;
        return [question(state, 'q')];
      }
      return message.id === 'q' ? result(call, 'done') : undefined;
    });
    expect(await callText(host, 'any')).toBe('done');
    const [, answer] = server.heard();
    expect(answer?.text).toContain(`"state":${state}`);
    expect(answer?.message).toMatchObject({ id: 'q', result: { action: 'decline' } });
    await host.close();
    await server.close();
  });

  it('[R-02] A client echoes the state with an error too', async () => {
    let call: unknown;
    const server = await rawServer(({ message }) => {
      if (message.method === 'tools/call') {
        call = message.id;
        return [question('{ "a" : 1.0 }', 'q')];
      }
      return message.id === 'q' ? [result(call, 'done')] : undefined;
    });
    const valise = await openValise({ store: memoryStore() });
    const host = askable(client, 'legacy', () => {
      throw Object.assign(new Error('nobody here'), { code: -32099, data: { why: 1 } });
    });
    await valise.connect(host, server.url, { resume: false });
    expect(await callText(host, 'any')).toBe('done');
    const [, answer] = server.heard();
    expect(answer?.text).toContain('"state":{ "a" : 1.0 }');
    expect(answer?.message.error).toMatchObject({ code: -32099 });
    await host.close();
    await server.close();
  });

  it('[R-04] A client adds no state if there was none', async () => {
    const { server, host } = await stage(({ message }) => {
      if (message.method === 'tools/call') return [question(undefined, 'q'), result(message.id, 'done')];
      return undefined;
    });
    expect(await callText(host, 'any')).toBe('done');
    await expect.poll(() => server.heard().length).toBe(2);
    const [, answer] = server.heard();
    expect(answer?.text).not.toContain('state');
    await host.close();
    await server.close();
  });

  it('[R-01] A client echoes the state on a ping', async () => {
    let call: unknown;
    const { server, host } = await stage(({ message }) => {
      if (message.method === 'tools/call') {
        call = message.id;
        return ['{"jsonrpc":"2.0","id":"p","method":"ping","state":1.50}'];
      }
      return message.id === 'p' ? [result(call, 'done')] : undefined;
    });
    expect(await callText(host, 'any')).toBe('done');
    expect(server.heard()[1]?.text).toContain('"state":1.50');
    await host.close();
    await server.close();
  });

  it.each([
    ['sampling/createMessage', '{"messages":[],"maxTokens":1}'],
    ['roots/list', '{}'],
  ])(
    '[R-01][R-02][R-03] A client echoes the state on %s, with a result and with an error',
    async (method, params) => {
      let call: unknown;
      const server = await rawServer(({ message }) => {
        const asking = (id: string) =>
          `{"jsonrpc":"2.0","id":"${id}","method":"${method}","state":{ "b":1.0, "a":"\\u0041" },"params":${params}}`;
        if (message.method === 'tools/call') {
          call = message.id;
          return [asking('q')];
        }
        return message.id === 'q' ? [asking('r')] : message.id === 'r' ? [result(call, 'done')] : undefined;
      });
      const valise = await openValise({ store: memoryStore() });
      let answers = 0;
      const host = answering(client, method, () => {
        if (++answers > 1) throw new Error('no more');
        return { role: 'assistant', model: 'm', content: { type: 'text', text: 'x' }, roots: [] };
      });
      await valise.connect(host, server.url, { resume: false });
      expect(await callText(host, 'any')).toBe('done');
      const [, first, second] = server.heard();
      for (const said of [first, second]) expect(said?.text).toContain('"state":{ "b":1.0, "a":"\\u0041" }');
      expect(first?.message).toHaveProperty('result');
      expect(second?.message).toHaveProperty('error');
      await host.close();
      await server.close();
    },
  );

  it('A client stores no question that the server has canceled', async () => {
    const cancelled = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}';
    const { server, host, valise } = await stage(
      ({ message }) => {
        if (message.method === 'ping')
          return [
            question('1', 'q'),
            cancelled,
            `{"jsonrpc":"2.0","id":${JSON.stringify(message.id)},"result":{}}`,
          ];
        return undefined;
      },
      new Promise(() => {}),
    );
    await host.ping();
    await expect.poll(() => valise.pending.list()).toEqual([]);
    await host.close();
    await server.close();
  });

  it('A client stores no question of a call that ends without its answer', async () => {
    let call: unknown;
    let asked = 0;
    const server = await rawServer(({ message }) => {
      if (message.method === 'tools/call') {
        call = message.id;
        return [question('1', 'q'), question('2', 'r')];
      }
      return message.id === 'q' ? result(call, 'done') : undefined;
    });
    const valise = await openValise({ store: memoryStore() });
    const host = askable(client, 'legacy', async () => {
      if (++asked === 2) return new Promise(() => {});
      await expect.poll(() => asked).toBe(2);
      return { action: 'decline' };
    });
    await valise.connect(host, server.url, { resume: false });
    expect(await callText(host, 'any')).toBe('done');
    await expect.poll(() => valise.pending.list()).toEqual([]);
    await host.close();
    await server.close();
  });

  it('A client announces the carriers that its transport supports', async () => {
    const { server, host } = await stage(() => undefined);
    expect(server.said[0]?.message.params.capabilities.extensions['dev.valise/rounds']).toEqual({
      version: '1.0.0',
      carriers: ['state', 'dependent-shared', 'dependent-each'],
      expiry: true,
    });
    await host.close();
    await server.close();
  });

  describe('draft form', () => {
    const round = (id: unknown, text: string): string =>
      `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"dependent_requests":${text}}`;
    const ask =
      '"method":"elicitation/create","params":{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}';

    it.each(STATES)('[R-06] A client echoes the shared state %s exactly', async (state) => {
      const { server, host } = await stage(({ message }) =>
        message.dependent_responses
          ? result(message.id, 'done')
          : [round(message.id, `{"state":${state},"requests":[{${ask}},{${ask}}]}`)],
      );
      expect(await callText(host, 'any', { a: 1 })).toBe('done');
      const [first, retry] = server.heard();
      expect(retry?.text).toContain(`"dependent_responses":{"state":${state},"responses":[`);
      expect(retry?.message.dependent_responses.responses).toEqual([
        { result: { action: 'decline' } },
        { result: { action: 'decline' } },
      ]);
      // [R-08] The original params, and a new id.
      expect(retry?.message.params).toEqual(first?.message.params);
      expect(retry?.message.id).not.toBe(first?.message.id);
      await host.close();
      await server.close();
    });

    it('[R-07][R-08] A client echoes each state in its place', async () => {
      const { server, host } = await stage(({ message }) =>
        message.dependent_responses
          ? [result(message.id, 'done')]
          : [
              round(
                message.id,
                `{"requests":[{"state":1.0,${ask}},{${ask}},{${ask},"state":{"z":1,"a":2}}]}`,
              ),
            ],
      );
      expect(await callText(host, 'any')).toBe('done');
      const [, retry] = server.heard();
      expect(retry?.text).toContain(
        '"dependent_responses":{"responses":[{"state":1.0,"result":{"action":"decline"}},{"result":{"action":"decline"}},{"state":{"z":1,"a":2},"result":{"action":"decline"}}]}',
      );
      await host.close();
      await server.close();
    });

    it('A client answers a question whose method the draft omits', async () => {
      const { server, host } = await stage(({ message }) =>
        message.dependent_responses
          ? [result(message.id, 'done')]
          : [
              round(
                message.id,
                '{"requests":[{"params":{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}}]}',
              ),
            ],
      );
      expect(await callText(host, 'any')).toBe('done');
      expect(server.heard()[1]?.message.dependent_responses).toEqual({
        responses: [{ result: { action: 'decline' } }],
      });
      await host.close();
      await server.close();
    });

    it('A client does not ask what a server may not ask', async () => {
      const { server, host } = await stage(({ message }) =>
        message.dependent_responses
          ? [result(message.id, 'done')]
          : [round(message.id, '{"requests":[{"method":"tools/call","params":{}}]}')],
      );
      expect(await callText(host, 'any')).toBe('done');
      expect(server.heard()[1]?.message.dependent_responses.responses).toMatchObject([
        { error: { code: -32601 } },
      ]);
      await host.close();
      await server.close();
    });

    it('A call fails if the round cannot be read', async () => {
      const { server, host } = await stage(({ message }) => [round(message.id, '{"requests":5}')]);
      await expect(callText(host, 'any')).rejects.toThrow(/questions of the server are invalid/);
      await host.close();
      await server.close();
    });
  });

  it('A client of the older era supports the final form too', async () => {
    const { server, host } = await stage(
      ({ message }) => {
        if (message.params.requestState) return result(message.id, 'done');
        const inputRequests = {
          a: {
            method: 'elicitation/create',
            params: { message: 'A?', requestedSchema: { type: 'object', properties: {} } },
          },
          b: {
            method: 'elicitation/create',
            params: { message: 'B?', requestedSchema: { type: 'object', properties: {} } },
          },
        };
        return JSON.stringify({
          jsonrpc: '2.0',
          id: message.id,
          result: { resultType: 'input_required', inputRequests, requestState: 'a==  b' },
        });
      },
      { action: 'accept', content: {} },
    );
    expect(await callText(host, 'any', { a: 1 })).toBe('done');
    const [first, retry] = server.heard();
    expect(retry?.message.params).toEqual({
      ...first?.message.params,
      requestState: 'a==  b',
      inputResponses: { a: { action: 'accept', content: {} }, b: { action: 'accept', content: {} } },
    });
    await host.close();
    await server.close();
  });

  it('A call fails with a clear error after a hundred rounds', async () => {
    let rounds = 0;
    const { server, host, valise } = await stage(({ message }) => {
      rounds++;
      return `{"jsonrpc":"2.0","id":${JSON.stringify(message.id)},"dependent_requests":{"state":${rounds},"requests":[{"params":{"message":"Again?","requestedSchema":{"type":"object","properties":{}}}}]}}`;
    });
    await expect(callText(host, 'any')).rejects.toThrow(/still asked for input after 100 rounds/);
    expect(rounds).toBe(101);
    expect(await valise.pending.list()).toEqual([]);
    await host.close();
    await server.close();
  });
});
