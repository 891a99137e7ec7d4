import { join } from 'node:path';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it } from 'vitest';
import { folder, serveExample, valise } from './valise.ts';

describe('the command', { timeout: 60_000 }, () => {
  it('prints no values of a query: in status, sessions, pending, doctor and errors', async () => {
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`, '--insecure-plaintext'];
    const withSecret = (url: string): string => `${url}?api_key=s3cret`;
    const notebook = await serveExample(['notebook']);
    const items = await serveExample(['work-items', '--stateless'], { VALISE_KEYS: generateKey() });
    const note = ['notebook_append', '{"text":"x"}', '--session', 'diary'];
    const bug = JSON.stringify({ workItemId: 4522, fields: { 'System.State': 'Resolved' } });
    const nowhere = 'http://127.0.0.1:9/mcp';
    for (const args of [
      ['call', withSecret(notebook.url), ...note, ...store],
      ['call', withSecret(items.url), 'update_work_item', bug, ...store],
      ['status', ...store],
      ['status', withSecret(nowhere), ...store],
      ['logout', withSecret(nowhere), ...store],
      ['sessions', ...store],
      ['sessions', 'show', 'diary', ...store],
      ['pending', ...store],
      ['pending', 'answer', 'x', withSecret(nowhere), ...store],
      ['doctor', withSecret(nowhere), ...store],
      ['doctor', withSecret(notebook.url), ...store],
      ['list', withSecret(nowhere), ...store],
      ['list', 'ftp://user:p@s3cret@example.com/?x=s3cret', ...store],
      ['list', `stdio:nothing-of-this-name ${withSecret(nowhere)}`, ...store],
    ])
      for (const more of args[0] === 'doctor' ? [[]] : [[], ['--json']]) {
        const { stdout, stderr } = await valise([...args, ...more]);
        expect(`${stdout}${stderr}`, args.join(' ')).not.toContain('s3cret');
        if (args[0] === 'status' && args.length === 4) expect(stdout).toContain('/mcp?api_key=…');
      }
  });
});
