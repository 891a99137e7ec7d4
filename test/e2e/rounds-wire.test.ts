import { StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import type { Carrier } from '../../src/wire/index.ts';
import { because } from '../skip.ts';
import { type AnyClient, callText } from './hosts.ts';
import { askable, asTheSeed, dialogue, RESOLVE, RESOLVED, type Stage, stage } from './rounds-stage.ts';

const modernOnly = because('needs an SDK of 2026-07-28 on both ends');
const SEALED = expect.stringMatching(/^v1\.[\w-]{8}\.[\w-]+$/);

/** The texts of the draft's example. */
const FIRST = {
  message: 'Resolving Bug #4522 requires a resolution. How was this bug resolved?',
  requestedSchema: {
    type: 'object',
    properties: {
      resolution: {
        type: 'string',
        enum: ['Fixed', "Won't Fix", 'Duplicate', 'By Design'],
        description: 'Resolution type for this bug',
      },
    },
    required: ['resolution'],
  },
};
const SECOND = {
  message: 'Since this is a duplicate, which work item is the original?',
  requestedSchema: {
    type: 'object',
    properties: { duplicateOfId: { type: 'number', description: 'Work item ID of the original bug' } },
    required: ['duplicateOfId'],
  },
};
const ask = (params: object) => ({ method: 'elicitation/create', params });
const duplicate = { action: 'accept', content: { resolution: 'Duplicate' } };
const original = { action: 'accept', content: { duplicateOfId: 4301 } };
const CALL = { name: 'update_work_item', arguments: RESOLVE };
const DONE = { content: [{ type: 'text', text: RESOLVED }] };

describe.each([
  { sdk: 'v1', client: 'v1', transport: 'a URL' },
  { sdk: 'v1', client: 'v2', transport: 'its own' },
  { sdk: 'v2', client: 'v1', transport: 'its own' },
  { sdk: 'v2', client: 'v2', transport: 'a URL' },
  { sdk: 'v2', client: 'v2', transport: 'its own' },
] as const)('[R-14] the example on the wire, SDK $sdk server, $client client over $transport', (stand) => {
  const { sdk, client, transport } = stand;
  /** Resolves the bug, each request on the next of three instances; what was said, and where. */
  const resolve = async (
    connect: (host: AnyClient, stage: Stage) => Promise<void>,
    era: 'legacy' | 'modern' = 'legacy',
  ) => {
    const set = await stage({ sdk, options: { store: memoryStore() } });
    const host = askable(client, era, asTheSeed);
    await connect(host, set);
    set.seen.length = 0;
    expect(await callText(host, 'update_work_item', RESOLVE)).toBe(RESOLVED);
    const said = dialogue(set.seen).filter(({ message }) => message.error?.code !== -32000);
    await host.close();
    await set.close();
    // Every message of the client went to another instance than the one before.
    const visited = said.filter(({ from }) => from === 'client').map(({ instance }) => instance);
    for (const [at, instance] of visited.slice(1).entries()) expect(instance).not.toBe(visited[at]);
    return said.map(({ from, message }) => [from, message] as const);
  };
  const sdkTransport = ({ urls, fetch }: Stage): HttpV2 => {
    const options = { fetch: fetch as typeof globalThis.fetch };
    const url = urls[0] as URL;
    return client === 'v1' ? (new HttpV1(url, options) as unknown as HttpV2) : new HttpV2(url, options);
  };
  const ours = (carrier: Carrier) => async (host: AnyClient, set: Stage) => {
    const valise = await openValise({ store: memoryStore(), carriers: [carrier] });
    const { urls, fetch } = set;
    if (transport === 'a URL') await valise.connect(host, urls[0] as URL, { fetch, resume: false });
    else await valise.connect(host, sdkTransport(set));
  };

  it('[R-01][R-02][J-24] the example works with the top-level state', async () => {
    const said = await resolve(ours('state'));
    const [, [, first], , [, second]] = said as [
      unknown,
      [string, { id: string; state: string }],
      unknown,
      [string, { id: string; state: string }],
    ];
    expect(said).toEqual([
      ['client', { jsonrpc: '2.0', id: expect.anything(), method: 'tools/call', params: CALL }],
      ['server', { jsonrpc: '2.0', id: expect.any(String), state: SEALED, ...ask(FIRST) }],
      ['client', { jsonrpc: '2.0', id: first.id, state: first.state, result: duplicate }],
      ['server', { jsonrpc: '2.0', id: expect.any(String), state: SEALED, ...ask(SECOND) }],
      ['client', { jsonrpc: '2.0', id: second.id, state: second.state, result: original }],
      ['server', { jsonrpc: '2.0', id: said[0]?.[1].id, result: DONE }],
    ]);
    expect(second.id).not.toBe(first.id);
  });

  it('[R-06][R-08] the example works with one shared state in dependent_requests', async () => {
    const said = await resolve(ours('dependent-shared'));
    const states = [said[1]?.[1].dependent_requests.state, said[3]?.[1].dependent_requests.state];
    const ids = [0, 2, 4].map((at) => said[at]?.[1].id);
    expect(said).toEqual([
      ['client', { jsonrpc: '2.0', id: ids[0], method: 'tools/call', params: CALL }],
      [
        'server',
        { jsonrpc: '2.0', id: ids[0], dependent_requests: { state: SEALED, requests: [ask(FIRST)] } },
      ],
      [
        'client',
        {
          jsonrpc: '2.0',
          id: ids[1],
          method: 'tools/call',
          params: CALL,
          dependent_responses: { state: states[0], responses: [{ result: duplicate }] },
        },
      ],
      [
        'server',
        { jsonrpc: '2.0', id: ids[1], dependent_requests: { state: SEALED, requests: [ask(SECOND)] } },
      ],
      [
        'client',
        {
          jsonrpc: '2.0',
          id: ids[2],
          method: 'tools/call',
          params: CALL,
          dependent_responses: { state: states[1], responses: [{ result: original }] },
        },
      ],
      ['server', { jsonrpc: '2.0', id: ids[2], result: DONE }],
    ]);
    expect(new Set(ids).size).toBe(3);
  });

  it('[R-07][R-08] the example works with a state for each request in dependent_requests', async () => {
    const said = await resolve(ours('dependent-each'));
    const states = [1, 3].map((at) => said[at]?.[1].dependent_requests.requests[0].state);
    expect(
      said.map(
        ([, message]) =>
          message.dependent_requests ?? message.dependent_responses ?? message.result ?? message.method,
      ),
    ).toEqual([
      'tools/call',
      { requests: [{ state: SEALED, ...ask(FIRST) }] },
      { responses: [{ state: states[0], result: duplicate }] },
      { requests: [{ state: SEALED, ...ask(SECOND) }] },
      { responses: [{ state: states[1], result: original }] },
      DONE,
    ]);
  });

  it('[R-09] the example works with the context in the id, for a stock client', async () => {
    const said = await resolve((host, set) => host.connect(sdkTransport(set)));
    const ids = [1, 3].map((at) => said[at]?.[1].id);
    expect(said).toEqual([
      ['client', { jsonrpc: '2.0', id: expect.anything(), method: 'tools/call', params: CALL }],
      ['server', { jsonrpc: '2.0', id: SEALED, ...ask(FIRST) }],
      ['client', { jsonrpc: '2.0', id: ids[0], result: duplicate }],
      ['server', { jsonrpc: '2.0', id: SEALED, ...ask(SECOND) }],
      ['client', { jsonrpc: '2.0', id: ids[1], result: original }],
      ['server', { jsonrpc: '2.0', id: said[0]?.[1].id, result: DONE }],
    ]);
  });

  it.runIf(sdk === 'v2' && client === 'v2')(
    'the example works with requestState on 2026-07-28',
    modernOnly,
    async () => {
      const said = await resolve(ours('state'), 'modern');
      const states = [1, 3].map((at) => said[at]?.[1].result.requestState);
      const [first, , second, , third] = said.map(([, message]) => message);
      for (const message of [first, second, third]) {
        delete message.params._meta;
        expect(message).toMatchObject({ jsonrpc: '2.0', method: 'tools/call' });
      }
      expect(first.params).toEqual(CALL);
      expect(said[1]?.[1]).toEqual({
        jsonrpc: '2.0',
        id: first.id,
        result: {
          resultType: 'input_required',
          inputRequests: { resolution: ask(FIRST) },
          requestState: SEALED,
          _meta: expect.objectContaining({ 'io.modelcontextprotocol/serverInfo': expect.anything() }),
        },
      });
      expect(second.params).toEqual({
        ...CALL,
        inputResponses: { resolution: duplicate },
        requestState: states[0],
      });
      expect(said[3]?.[1].result).toMatchObject({
        resultType: 'input_required',
        inputRequests: { duplicateOf: ask(SECOND) },
        requestState: SEALED,
      });
      expect(third.params).toEqual({
        ...CALL,
        inputResponses: { duplicateOf: original },
        requestState: states[1],
      });
      expect(said[5]?.[1].result).toMatchObject({ resultType: 'complete', ...DONE });
      expect(new Set([first.id, second.id, third.id]).size).toBe(3);
    },
  );
});
