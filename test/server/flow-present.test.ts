import { createValise, type SessionsOptions } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { NAMES } from 'mcp-valise/wire';
import { describe, expect, it } from 'vitest';
import { accept, call, echo, flowPeer, name, ours, text, type Wire } from './flow-peer.ts';
import { MAJORS } from './majors.ts';

interface Session {
  readonly sessionId: string;
  readonly state: string;
}

const KEY: string = NAMES.legacy.session;
const capabilities = {
  ...ours('state'),
  extensions: { 'dev.valise/rounds': { carriers: ['state'] }, 'dev.valise/sessions': {} },
};

describe.each(MAJORS)('a question that an SDK $major server asks in a session, answered alone', (major) => {
  /** Calls with an id set that; others ask, and say what they find in their session afterwards. */
  const open = async (mode: SessionsOptions['mode'], able: object = capabilities) => {
    const valise = createValise({ name: 'test', store: memoryStore(), sessions: { mode } });
    const warned: string[] = [];
    valise.on('warning', ({ what }) => what.includes('lost') && warned.push(what));
    const peer = await flowPeer(
      major,
      async ({ id }, flow) => {
        const session = valise.session();
        if (id !== undefined) session?.set('id', id);
        else {
          await flow.ask('who', name);
          session?.set('asked', true);
        }
        return text(JSON.stringify([session?.get('id'), session?.get('asked')]));
      },
      {
        valise,
        capabilities: able,
      },
    );
    const create = async (): Promise<Session> =>
      (await peer.say({ jsonrpc: '2.0', id: 'create', method: 'sessions/create' })).result.session;
    const within = async (session: Session, args: object = {}, tool = 'work', key = KEY): Promise<Wire> => {
      const { params, ...message } = call(args);
      return peer.say({ ...message, params: { ...params, name: tool, _meta: { [key]: session } } });
    };
    const answer = (asked: Wire, session?: unknown, key = KEY): Promise<Wire> =>
      peer.say(
        echo(asked, {
          ...accept({ name: 'Ada' }),
          _meta: { own: 1, ...(session !== undefined && { [key]: session }) },
        }),
      );
    return { create, within, answer, warned };
  };
  const sessionIn = ({ result }: Wire): Session => result._meta[KEY];
  const said = ({ result }: Wire): unknown => JSON.parse(result.content[0].text);

  it.each(['sealed', 'stored'] as const)(
    'a call continues in the session state that the answer brings (%s)',
    async (mode) => {
      const { create, within, answer, warned } = await open(mode);
      const first = await create();
      const asked = await within(first);
      const later = sessionIn(await within(first, { id: 7 }));
      expect(said(await answer(asked, later))).toEqual([7, true]);
      expect(warned).toEqual([]);
    },
  );

  it.each([NAMES.modern.session, 'mcp/session'])(
    'a call continues in the session state that the answer brings even if the call spelled it %s',
    async (key) => {
      const { create, within, answer, warned } = await open('sealed');
      const first = await create();
      const asked = await within(first, {}, 'work', key);
      const later = sessionIn(await within(first, { id: 7 }));
      expect(said(await answer(asked, later))).toEqual([7, true]);
      expect(warned).toEqual([]);
    },
  );

  it.each([
    { what: 'nothing', bring: () => undefined },
    { what: 'another session', bring: async (create: () => Promise<Session>) => create() },
    { what: 'an invalid session', bring: () => 'session' },
  ])(
    'a call continues in the session state of its question if the answer brings $what, and the author is warned',
    async ({ bring }) => {
      const { create, within, answer, warned } = await open('sealed');
      const first = await create();
      const asked = await within(first);
      await within(first, { id: 7 });
      const done = await answer(asked, await bring(create));
      expect(said(done)).toEqual([null, true]);
      expect(sessionIn(done).sessionId).toBe(first.sessionId);
      expect(warned).toHaveLength(1);
    },
  );

  it('[S-19] an answer that brings a forged session is refused', async () => {
    const { create, within, answer } = await open('sealed');
    const first = await create();
    const other = await create();
    const asked = await within(first);
    expect((await answer(asked, { ...first, state: other.state })).error).toMatchObject({ code: -32043 });
  });

  it('an answer without a session loses nothing in a stored session, and causes no warning', async () => {
    const { create, within, answer, warned } = await open('stored');
    const first = await create();
    const asked = await within(first);
    await within(first, { id: 7 });
    expect(said(await answer(asked))).toEqual([7, true]);
    expect(warned).toEqual([]);
  });

  describe('answers to questions that wait in memory', () => {
    const waiting = { elicitation: {}, extensions: { 'dev.valise/sessions': {} } };

    it.each([
      {
        what: 'brings the current session',
        warnings: 1,
        bring: (_: Session, later: Session) => later,
      },
      { what: 'brings no session', warnings: 1, bring: () => undefined },
      { what: 'brings the unchanged session', warnings: 0, bring: (first: Session) => first },
    ])(
      'a waiting call continues in the session state that it began with if the answer $what: $warnings warning',
      async ({ bring, warnings }) => {
        const { create, within, answer, warned } = await open('sealed', waiting);
        const first = await create();
        const asked = await within(first);
        expect(asked.id).toMatch(/^valise:/);
        const later = sessionIn(await within(first, { id: 7 }));
        expect(said(await answer(asked, bring(first, later)))).toEqual([null, true]);
        expect(warned).toHaveLength(warnings);
      },
    );

    it('a waiting call loses nothing in a stored session, and causes no warning', async () => {
      const { create, within, answer, warned } = await open('stored', waiting);
      const first = await create();
      const asked = await within(first);
      await within(first, { id: 7 });
      await answer(asked);
      expect(said(await within(first, { id: 8 }))).toEqual([8, true]);
      expect(warned).toEqual([]);
    });
  });
});
