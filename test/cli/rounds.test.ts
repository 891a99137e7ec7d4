import { join } from 'node:path';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it } from 'vitest';
import { folder, serveExample, valise, valiseJson } from './valise.ts';

const bug = JSON.stringify({ workItemId: 4522, fields: { 'System.State': 'Resolved' } });
const done =
  'Bug #4522 resolved as Duplicate of Bug #4301. State set to Resolved and duplicate link created.\n';

async function stage() {
  const env = { VALISE_KEYS: generateKey() };
  const { url } = await serveExample(['work-items', '--stateless'], env);
  return { url, env, store: ['--store', `sqlite:${join(await folder(), 'state.db')}`] };
}

describe('valise call where the server asks', () => {
  it.each([[[]], [['--era', 'legacy']], [['--era', 'legacy', '--sdk', 'v1']]])(
    '[R-14] answers from the command line, property by property (%j)',
    async (extra) => {
      const { url, env, store } = await stage();
      const answers = ['--answer', 'resolution=Duplicate', '--answer', 'duplicateOfId=4301'];
      expect(
        await valise(['call', url, 'update_work_item', bug, ...answers, ...extra, ...store], env),
      ).toMatchObject({
        code: 0,
        stdout: done,
      });
    },
  );

  it.each([[[]], [['--era', 'legacy', '--sdk', 'v1']]])(
    'leaves the round pending where nobody answers, and goes on in a later process (%j)',
    async (extra) => {
      const { url, env, store } = await stage();
      const left = await valise(['call', url, 'update_work_item', bug, ...extra, ...store], env);
      expect(left).toMatchObject({
        code: 3,
        stdout: '',
        stderr: expect.stringContaining('valise pending answer'),
      });
      const { pending } = await valiseJson<{
        pending: { id: string; questions: { params: { message: string } }[] }[];
      }>(['pending', ...store], env);
      expect(pending).toHaveLength(1);
      expect(pending[0]?.questions[0]?.params.message).toMatch(/requires a resolution/);
      const { id } = pending[0]!;
      const answer = (text: string) =>
        valise(['pending', 'answer', id, '--answer', text, ...extra, ...store], env);
      expect(await answer('resolution=Duplicate')).toMatchObject({ code: 3 });
      expect(await answer('duplicateOfId=4301')).toMatchObject({ code: 0, stdout: done });
      expect((await valise(['pending', ...store], env)).stdout).toBe('Nothing waits for an answer.\n');
    },
  );

  it('refuses an answer that does not fit, before the server sees it', async () => {
    const { url, env, store } = await stage();
    const wrong = await valise(
      ['call', url, 'update_work_item', bug, '--answer', 'resolution=Perhaps', ...store],
      env,
    );
    expect(wrong.code).toBe(1);
    expect(wrong.stderr).toContain("Choose one of: Fixed, Won't Fix, Duplicate, By Design.");
    expect(
      await valise(['call', url, 'update_work_item', bug, '--answer', 'nonsense', ...store], env),
    ).toMatchObject({ code: 1 });
  });

  it('drops a pending round', async () => {
    const { url, env, store } = await stage();
    const { pending } = await valiseJson<{ pending: string }>(
      ['call', url, 'update_work_item', bug, ...store],
      env,
    );
    expect(await valiseJson(['pending', 'drop', pending, ...store], env)).toEqual({ dropped: true });
    expect((await valise(['pending', 'drop', pending, ...store], env)).code).toBe(1);
    expect(await valise(['pending', 'answer', pending, ...store], env)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('Nothing waits'),
    });
  });
});
