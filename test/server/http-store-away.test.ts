import { createValise, type SessionsOptions } from 'mcp-valise/server';
import { afterEach, describe, expect, it } from 'vitest';
import { cuttable, HIDDEN, PLACE } from './cuttable-store.ts';
import { accept } from './flow-peer.ts';
import { call, endServers, FORMS, HEADERS, initialize, listen, post } from './http-stage.ts';

afterEach(endServers);

const CANCELLED = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } };

describe.each(Object.entries(FORMS))('HTTP requests while the store is unavailable (%s)', (_, form) => {
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
    const say = (message: object) => post(url, message, session);
    /** Makes a call that asks; what comes on its stream, piece by piece. */
    const ask = async () => {
      const body = JSON.stringify(call('ask'));
      const { body: stream } = await fetch(url, {
        method: 'POST',
        headers: { ...HEADERS, ...session },
        body,
      });
      const reader = stream!.pipeThrough(new TextDecoderStream()).getReader();
      return async () => (await reader.read()).value ?? '';
    };
    /** Resolves once the store was asked in vain for what came of an answer. */
    const looked = () =>
      expect.poll(() => cut.refused.some((key) => key.startsWith('rounds/mail/'))).toBe(true);
    return { valise, cut, warnings, looked, say, ask };
  };

  it.each(['sealed', 'stored'] as const)(
    'a call that needs no session succeeds while the store is unavailable, and one that needs a session gets an error (%s)',
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

  it('no handler that requires a session runs while the store is unavailable', async () => {
    const { valise, cut, say } = await stage();
    valise.sessions.require('plain');
    cut.off = true;
    expect((await say(call('plain'))).message.error).toMatchObject(HIDDEN);
  });

  it('a call that asks gets an error while the store is unavailable', async () => {
    const { cut, warnings, say } = await stage();
    cut.off = true;
    const { message, body } = await say(call('ask'));
    expect(message).toMatchObject({ id: 7, error: HIDDEN });
    expect(body).not.toContain('10.0.0.7');
    expect(warnings).toContainEqual(expect.stringContaining(`${PLACE} failed: connect ECONNREFUSED.`));
  });

  it('a call that has asked keeps waiting, and is answered once the store is available again', async () => {
    const { cut, looked, say, ask } = await stage();
    const next = await ask();
    const { id } = JSON.parse(/^data: (.+)$/m.exec(await next())?.[1] as string) as { id: string };
    cut.off = true;
    await looked();
    cut.off = false;
    expect((await say({ jsonrpc: '2.0', id, result: accept({ name: 'Ada' }) })).status).toBe(202);
    expect(await next()).toContain('hello Ada');
  });

  it('notifications are accepted while the store is unavailable, including the one that cancels a call', async () => {
    const { cut, warnings, say } = await stage();
    cut.off = true;
    expect((await say({ jsonrpc: '2.0', method: 'notifications/initialized' })).status).toBe(202);
    expect((await say(CANCELLED)).status).toBe(202);
    expect(warnings).toContainEqual(expect.stringContaining('cancelled'));
  });
});
