import { join } from 'node:path';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it } from 'vitest';
import { folder, serveExample, valise, valiseJson } from './valise.ts';

describe.each([[[]], [['--era', 'legacy']], [['--era', 'legacy', '--sdk', 'v1']]])(
  'valise call --session (%j)',
  (extra) => {
    it('[S-06] finds a named session again in the next process, and deletes it', async () => {
      const env = { VALISE_KEYS: generateKey() };
      const { url } = await serveExample(['notebook'], env);
      const common = [...extra, '--store', `sqlite:${join(await folder(), 'state.db')}`];
      const append = (text: string, session: string) =>
        valise(
          ['call', url, 'notebook_append', JSON.stringify({ text }), '--session', session, ...common],
          env,
        );
      expect((await append('one', 'diary')).code).toBe(0);
      expect((await append('two', 'diary')).code).toBe(0);
      expect((await append('other', 'new')).code).toBe(0);
      expect(
        (await valise(['call', url, 'notebook_read', '--session', 'diary', ...common], env)).stdout,
      ).toBe('one\ntwo\n');
      const { sessions } = await valiseJson<{ sessions: { label: string }[] }>(['sessions', ...common], env);
      expect(sessions.map(({ label }) => label)).toEqual(['diary']);
      expect((await valise(['sessions', 'show', 'diary', ...common], env)).stdout).toMatch(
        /^session {2}sess-/,
      );
      expect(await valise(['sessions', 'delete', 'diary', url, ...common], env)).toMatchObject({
        code: 0,
        stdout: 'deleted\n',
      });
      expect((await valise(['sessions', ...common], env)).stdout).toBe('No sessions are kept.\n');
      expect(await valise(['sessions', 'show', 'diary', ...common], env)).toMatchObject({ code: 1 });
    });
  },
);

describe.each(['auto', 'legacy'])('a server without sessions (--era %s)', (era) => {
  it('lists none, and says that it does not know how to make one', async () => {
    const { url } = await serveExample(['shop']);
    const common = ['--era', era, '--store', 'memory:'];
    expect(await valise(['sessions', 'list', url, ...common])).toMatchObject({
      code: 0,
      stdout: 'No sessions with this server are kept, and it lists none for you.\n',
    });
    expect(await valise(['call', url, 'view_cart', '--session', 'new', ...common])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('sessions'),
    });
  });
});
