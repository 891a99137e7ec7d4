import { createValise, type SessionsOptions } from 'mcp-valise/server';
import { afterEach, describe, expect, it } from 'vitest';
import { cuttable, HIDDEN, PLACE } from './cuttable-store.ts';
import { call, endServers, FORMS, initialize, listen, post } from './http-stage.ts';

afterEach(endServers);

const CANCELLED = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } };

describe.each(Object.entries(FORMS))('while the store is away, over HTTP (%s)', (_, form) => {
  const stage = async (sessions: SessionsOptions = {}) => {
    const { store, cut } = cuttable();
    const warnings: string[] = [];
    const valise = createValise({
      name: 'test',
      store,
      sessions,
      events: { warning: ({ what }) => warnings.push(what) },
    });
    const url = await listen(form(valise));
    const { headers } = await post(url, initialize({ elicitation: {} }));
    const session = { 'mcp-session-id': headers.get('mcp-session-id') as string };
    return { valise, cut, warnings, say: (message: object) => post(url, message, session) };
  };

  it.each(['sealed', 'stored'] as const)(
    'a call goes through that needs no session, and one that does hears why it fails (%s)',
    async (mode) => {
      const { cut, warnings, say } = await stage({ mode });
      expect((await say(call('count'))).message.result.content[0].text).toBe('1');
      cut.off = true;
      expect((await say(call('plain'))).message.result.content[0].text).toBe('plain');
      warnings.length = 0;
      const { message, body } = await say(call('count'));
      expect(message.error).toMatchObject(HIDDEN);
      expect(body).not.toContain('10.0.0.7');
      expect(warnings).toContainEqual(expect.stringContaining(`${PLACE} failed: connect ECONNREFUSED.`));
      cut.off = false;
      expect((await say(call('count'))).message.result.content[0].text).toBe('2');
    },
  );

  it('no handler runs that requires a session', async () => {
    const { valise, cut, say } = await stage();
    valise.requireSession('plain');
    cut.off = true;
    expect((await say(call('plain'))).message.error).toMatchObject(HIDDEN);
  });

  it('notifications are taken, also of a call that is cancelled', async () => {
    const { cut, warnings, say } = await stage();
    cut.off = true;
    expect((await say({ jsonrpc: '2.0', method: 'notifications/initialized' })).status).toBe(202);
    expect((await say(CANCELLED)).status).toBe(202);
    expect(warnings).toContainEqual(expect.stringContaining('cancelled'));
  });
});
