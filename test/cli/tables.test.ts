import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { because } from '../skip.ts';
import { hasTmux, onTerminal } from './tmux.ts';
import { folder, serveExample, VALISE, valise, valiseJson } from './valise.ts';

/** The width of the terminal that tests run on. */
const COLUMNS = 110;

/** A store with two calls that wait for an answer, and their ids. */
async function twoPending(): Promise<{ readonly store: readonly string[]; readonly ids: readonly string[] }> {
  const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
  const { url } = await serveExample(['work-items']);
  for (const workItemId of [7, 8]) {
    const args = JSON.stringify({ workItemId, fields: { 'System.State': 'Resolved' } });
    expect(await valise(['call', url, 'update_work_item', args, ...store])).toMatchObject({ code: 3 });
  }
  const { pending } = await valiseJson<{ pending: readonly { readonly id: string }[] }>([
    'pending',
    ...store,
  ]);
  return { store, ids: pending.map(({ id }) => id) };
}

describe('an id', { timeout: 60_000 }, () => {
  /** The shortest beginning that tells an id from the others. */
  const shortest = (id: string, others: readonly string[]): string =>
    [...id].reduce(
      (begun, char) => (others.some((other) => other.startsWith(begun)) ? begun + char : begun),
      '',
    );

  it('of a pending call may be shortened to a beginning that no other has', async () => {
    const { store, ids } = await twoPending();
    const [first = '', second = ''] = ids;
    const answer = ['--answer', 'resolution=Fixed', ...store];
    expect(await valise(['pending', 'answer', shortest(first, [second]), ...answer])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('resolved as Fixed'),
    });
    expect(await valise(['pending', 'drop', `${second.slice(0, 3)}…`, ...store])).toMatchObject({
      code: 0,
      stdout: 'dropped\n',
    });
  });

  it('of a session may be shortened, and the error lists those that begin alike', async () => {
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    const { url } = await serveExample(['notebook', '--mode', 'stored', '--store', 'memory:']);
    for (const name of ['diary', 'work'])
      await valise(['call', url, 'notebook_append', '{"text":"x"}', '--session', name, ...store]);
    const { sessions } = await valiseJson<{ sessions: readonly { readonly id: string }[] }>([
      'sessions',
      ...store,
    ]);
    const [first = '', second = ''] = sessions.map(({ id }) => id);
    const begun = shortest(first, [second]);
    expect(await valiseJson(['sessions', 'show', begun, ...store])).toMatchObject({ id: first });
    const { code, stderr } = await valise(['sessions', 'delete', begun.slice(0, -1), ...store]);
    expect({ code, sessions: await valiseJson(['sessions', ...store]) }).toMatchObject({
      code: 2,
      sessions: { sessions: [{ id: first }, { id: second }] },
    });
    for (const id of [first, second]) expect(stderr).toContain(id);
  });
});

describe('a table', { timeout: 60_000 }, () => {
  it.skipIf(!hasTmux)(
    'fits the terminal, cuts long cells with an ellipsis, and shows whole ids if there is room',
    because('needs tmux'),
    async () => {
      const { store, ids } = await twoPending();
      const terminal = await onTerminal([process.execPath, VALISE, 'pending', ...store]);
      await terminal.shows(/exit code 0/);
      const lines = (await terminal.written()).split(/\r?\n/).filter((line) => /^\S{8}/.test(line));
      const rows = lines.filter((line) => line.includes('update_'));
      expect(rows).toHaveLength(2);
      for (const row of rows) {
        expect(row.length).toBeLessThanOrEqual(COLUMNS);
        expect(row).toContain('…');
      }
      for (const id of ids) expect(rows.filter((row) => row.startsWith(id))).toHaveLength(1);
    },
  );

  it('has its full width in a pipe', async () => {
    const { store } = await twoPending();
    const { stdout } = await valise(['pending', ...store]);
    expect(stdout).not.toContain('…');
    expect(stdout).toMatch(/How was this bug resolved\?.*resolution=Fixed\|/);
  });
});
