import { generateKey } from 'mcp-valise/seal';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { accept } from './flow-peer.ts';
import { CARRIERS, call, endServers, FORMS, initialize, listen, post } from './http-stage.ts';

afterEach(endServers);

describe.each(Object.entries(FORMS))(
  'capabilities of a client over HTTP without sessions (%s)',
  (_, form) => {
    /** Two instances of a server, and the session of a client that introduced itself to the first. */
    const open = async (capabilities: object) => {
      const options = { name: 'test', keys: generateKey(), store: memoryStore(), sessions: {} };
      const [one, two] = [createValise(options), createValise(options)];
      two.sessions.require('count');
      const { headers } = await post(await listen(form(one)), initialize(capabilities));
      const session = { 'mcp-session-id': headers.get('mcp-session-id') as string };
      const url = await listen(form(two));
      return { send: (message: object) => post(url, message, session), bare: (m: object) => post(url, m) };
    };
    const elicitation = {};
    const long = { 'com.example/long': { text: 'x'.repeat(5000) } };

    it.each([
      { where: 'experimental', capabilities: { experimental: { sessions: {} } } },
      {
        where: 'experimental, among long capabilities',
        capabilities: { experimental: { sessions: {}, ...long } },
      },
      {
        where: 'extensions, among long capabilities',
        capabilities: { extensions: { 'dev.valise/sessions': {}, ...long } },
      },
    ])(
      '[S-02] [S-25] any instance knows that a client announced sessions under $where',
      async ({ capabilities }) => {
        const { send } = await open(capabilities);
        // A client that knows no sessions would get one of the transport's instead.
        expect((await send(call('count'))).message).toMatchObject({
          error: { code: -32044, message: 'Session required' },
        });
      },
    );

    it.each([
      { where: 'experimental', capabilities: { elicitation, experimental: CARRIERS } },
      {
        where: 'experimental, among long capabilities',
        capabilities: { elicitation, experimental: { ...CARRIERS, ...long } },
      },
      {
        where: 'extensions, among long capabilities',
        capabilities: { elicitation, extensions: { ...CARRIERS, ...long } },
      },
    ])(
      'any instance knows how a client carries state from its announcement under $where',
      async ({ capabilities }) => {
        const { send, bare } = await open(capabilities);
        const first = (await send(call('ask-twice'))).message;
        expect(first).toMatchObject({ method: 'elicitation/create', state: expect.any(String) });
        const answer = { jsonrpc: '2.0', id: first.id, state: first.state, result: accept({ name: 'Ada' }) };
        // Nor where the answer itself has to tell who the client is.
        const second = (await bare(answer)).message;
        expect(second).toMatchObject({ method: 'elicitation/create', state: expect.any(String) });
      },
    );
  },
);
