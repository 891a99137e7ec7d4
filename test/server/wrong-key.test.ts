import { generateKey, parseKeys } from 'mcp-valise/seal';
import { createValise, type ServerValiseOptions } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { accept, call, flowPeer, modernCall, name, text, type Wire } from './flow-peer.ts';
import { endServers, FORMS, call as httpCall, initialize, listen, post } from './http-stage.ts';
import { MAJORS } from './majors.ts';

afterEach(endServers);

const FAULT = {
  code: -32603,
  message: 'Internal error: the server could not work on the request.',
  data: { 'dev.valise/outcome': 'not-done' },
};

/** The names of each era. */
const ERAS = {
  'before 2026-07-28': {
    call: (tool: string, meta: object = {}): Wire => call({}, { params: { name: tool, _meta: meta } }),
    create: (): Wire => ({ ...call(), method: 'sessions/create', params: {} }),
    session: 'io.modelcontextprotocol/session',
    notFound: -32043,
    jar: (value: unknown) => ({ 'modelcontextprotocol.io/state/session': value ?? {} }),
    jarIn: (meta: Wire) => meta['modelcontextprotocol.io/state/session'],
  },
  '2026-07-28': {
    call: (tool: string, meta: object = {}): Wire => {
      const message = modernCall({}, { name: tool });
      return {
        ...message,
        params: { ...message['params'], _meta: { ...message['params']._meta, ...meta } },
      };
    },
    create: (): Wire => ({ ...modernCall(), method: 'dev.valise/sessions/create' }),
    session: 'dev.valise/session',
    notFound: -31043,
    jar: (value: unknown) => ({ 'dev.valise/state': { session: value ?? {} } }),
    jarIn: (meta: Wire) => meta['dev.valise/state']?.session,
  },
};

const KINDS: [kind: string, options: () => Partial<ServerValiseOptions>][] = [
  ['sealed', () => ({ sessions: { mode: 'sealed' } })],
  ['sealed, with a store', () => ({ sessions: { mode: 'sealed' }, store: memoryStore() })],
  ['stored', () => ({ sessions: { mode: 'stored' }, store: memoryStore() })],
];

describe.each(Object.entries(ERAS))('an instance with a wrong key (%s)', (_, era) => {
  const instances = async (shared: Partial<ServerValiseOptions>) => {
    const right = parseKeys(generateKey());
    const open = (own: Partial<ServerValiseOptions>) =>
      flowPeer(
        MAJORS[1],
        async (_args, flow) => text(`hello ${((await flow.ask('who', name)) as { name: string }).name}`),
        {
          options: { ...shared, ...own },
          also(server, valise) {
            server.registerTool('count', {}, (async () => {
              const session = valise.session();
              const n = Number(session?.get('n') ?? 0) + 1;
              session?.set('n', n);
              return text(String(n));
            }) as never);
            server.registerTool('jar', {}, (async () => {
              const { session } = valise.jar;
              const n = Number(session.get('n') ?? 0) + 1;
              session.set('n', n);
              return text(String(n));
            }) as never);
          },
        },
      );
    return {
      right: await open({ keys: right }),
      wrong: await open({ keys: generateKey() }),
      retired: await open({ keys: generateKey(), retiredKeys: right.kids }),
    };
  };

  it.each(KINDS)(
    'an instance with a wrong key ends no session, and the session continues on the others (%s)',
    async (_kind, options) => {
      const { right, wrong, retired } = await instances(options());
      let { session } = (await right.say(era.create())).result;
      const count = async (peer: typeof right) => {
        const { result, error } = await peer.say(era.call('count', { [era.session]: session }));
        session = { ...session, ...result?._meta?.[era.session] };
        return error ?? result.content[0].text;
      };
      expect(await count(right)).toBe('1');
      expect(await count(wrong)).toMatchObject(FAULT);
      expect(wrong.warnings.at(-1)?.what).toContain('which is not on this keyring');
      expect(await count(right)).toBe('2');
      expect(await count(retired)).toMatchObject({ code: era.notFound });
    },
  );

  it('an instance with a wrong key loses and overwrites nothing in the jar of a client', async () => {
    const { right, wrong, retired } = await instances({});
    let held: object = {};
    const count = async (peer: typeof right) => {
      const { result, error } = await peer.say(era.call('jar', era.jar(held)));
      held = { ...held, ...era.jarIn(result?._meta ?? {}) };
      return error ?? result.content[0].text;
    };
    expect(await count(right)).toBe('1');
    expect(await count(wrong)).toMatchObject(FAULT);
    expect(await count(right)).toBe('2');
    expect(await count(retired)).toBe('1');
  });
});

it.each([
  ['carried', {}],
  ['stored', { store: memoryStore(), flows: { mode: 'stored' } }],
] as [string, Partial<ServerValiseOptions>][])(
  'an instance with a wrong key uses up no answer of a flow, and the others accept the answer (%s)',
  async (_, shared) => {
    const flow = async (_args: object, flow: { ask: (key: string, question: typeof name) => unknown }) =>
      text(`hello ${((await flow.ask('who', name)) as { name: string }).name}`);
    const right = await flowPeer(MAJORS[1], flow as never, { options: { keys: generateKey(), ...shared } });
    const wrong = await flowPeer(MAJORS[1], flow as never, { options: { keys: generateKey(), ...shared } });
    const { requestState } = (await right.say(modernCall())).result;
    const answer = modernCall({}, { requestState, inputResponses: { who: accept({ name: 'Ada' }) } });
    expect((await wrong.say(answer)).error).toMatchObject(FAULT);
    expect((await right.say(answer)).result).toMatchObject(text('hello Ada'));
    const damaged = modernCall({}, { requestState: `${requestState.slice(0, -4)}AAAA` });
    expect((await wrong.say(damaged)).error, 'what no key opens').toMatchObject({ code: -32603 });
    expect((await right.say(damaged)).error, 'what was altered').toMatchObject({ code: -32602 });
  },
);

describe.each(Object.entries(FORMS))('an instance with a wrong key over HTTP (%s)', (_, form) => {
  it('an instance with a wrong key does not end the transport session of an older client, and the others continue it', async () => {
    const store = memoryStore();
    const open = (keys: string) =>
      listen(form(createValise({ name: 'test', keys, store, sessions: {}, events: { warning: () => {} } })));
    const [right, wrong] = [await open(generateKey()), await open(generateKey())];
    const { headers } = await post(right, initialize({}));
    const session = { 'mcp-session-id': headers.get('mcp-session-id') as string };
    const count = async (url: URL) => {
      const { status, message } = await post(url, httpCall('count'), session);
      return [status, message.error ?? message.result.content[0].text];
    };
    expect(await count(right)).toEqual([200, '1']);
    expect(await count(wrong)).toMatchObject([500, FAULT]);
    expect(await count(right)).toEqual([200, '2']);
  });
});
