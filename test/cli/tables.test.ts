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
  const { pending } = await valiseJson<{ pending: readonly { readonly id: string }[] }>(['pending', ...store]);
  return { store, ids: pending.map(({ id }) => id) };
}

describe('a table', { timeout: 60_000 }, () => {
  it.skipIf(!hasTmux)(
    'fits the terminal, cuts long cells with an ellipsis, and shows ids whole where there is room',
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
