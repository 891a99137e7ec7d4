import { join } from 'node:path';
import { expect, it } from 'vitest';
import { KINDS } from '../client/hosts.ts';
import { openSessionHost, saying, sessionOf } from '../client/sessions-host.ts';
import { folder, valise } from './valise.ts';

it.each([
  [['--era', 'legacy'], KINDS[1]],
  [['--era', 'modern'], KINDS[2]],
] as const)(
  '[S-05] valise call (%j) does not take the session of one user for another, before and after valise logout',
  async (era, kind) => {
    const host = await openSessionHost(kind);
    host.answer = ({ meta }) => {
      const { sessionId } = sessionOf(meta) ?? {};
      return sessionId === undefined ? {} : saying(kind.era, { sessionId, state: `state of ${sessionId}` });
    };
    const url = `http://127.0.0.1:${host.port}/mcp`;
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    const call = async (token: string): Promise<string> => {
      const from = host.seen.length;
      const header = ['-H', `Authorization: Bearer ${token}`];
      const ran = await valise(['call', url, 'note', '--session', 'diary', ...header, ...era, ...store]);
      expect(ran).toMatchObject({ code: 0 });
      return JSON.stringify(host.seen.slice(from));
    };
    await call('ann');
    expect(await call('ann')).toContain('state of sess-1');
    expect(await call('bob')).not.toContain('sess-1');
    expect(await call('ann')).toContain('state of sess-1');
    expect(await valise(['logout', url, ...store])).toMatchObject({ code: 0 });
    expect((await valise(['sessions', ...store])).stdout).toBe('No sessions are kept.\n');
    for (const token of ['cid', 'ann', 'bob']) expect(await call(token)).not.toMatch(/sess-[12]\b/);
    await host.close();
  },
);
