import { Client } from '@modelcontextprotocol/client';
import { openValise } from 'mcp-valise/client';
import { generateKey } from 'mcp-valise/seal';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { valise as run } from '../cli/valise.ts';
import { because } from '../skip.ts';
import { look } from './look.ts';
import { HAS_BROWSER, Stage } from './stage.ts';

describe.skipIf(!HAS_BROWSER)('the console of a server', because('needs Chromium'), () => {
  const keys = generateKey();
  let stage: Stage;
  let store: string;
  let url: string;
  const append = (text: string, session: string) =>
    run(
      [
        'call',
        url,
        'notebook_append',
        JSON.stringify({ text }),
        '--session',
        session,
        '--store',
        stage.store(),
        '--allow-local',
      ],
      { HOME: stage.folder },
    );
  beforeAll(async () => {
    stage = await Stage.open();
    store = stage.store('server');
    const args = ['example', 'notebook', '--http', '0', '--stateless', '--mode', 'stored', '--store', store];
    ({ url } = await stage.start(args, { VALISE_KEYS: keys }));
    const host = await openValise({ store: stage.store(), allowLocal: true });
    host.on('warning', () => {});
    const client = new Client({ name: 'host', version: '1.0.0' });
    await host.connect(client, url);
    for (const label of ['diary', 'work']) await host.sessions(client).create({ label });
    await client.close();
    await host.close();
  });
  afterAll(() => stage?.close());

  it('lists sessions by principal, and revokes one for its client too', async () => {
    const console = await stage.console(['--server', store, '--write', '--name', 'notebook'], {
      VALISE_KEYS: keys,
    });
    const { page, context, errors } = await stage.page(console.url);
    const table = page.getByRole('table', { name: 'Sessions' });
    await table.getByText('diary').waitFor();
    await table.getByText('in the store').first().waitFor();
    await look(page, 'server-sessions');
    expect((await append('before', 'diary')).code).toBe(0);
    await page.getByRole('button', { name: 'Revoke diary' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await expect.poll(() => table.getByRole('row', { name: /diary/ }).innerText()).toContain('revoked');
    const after = await append('after', 'diary');
    expect(after.code).not.toBe(0);
    for (const [name, words] of [
      ['Flows', 'No flow is kept'],
      ['Rejections', 'Mount valise.console()'],
      ['Store and keys', 'A read takes'],
    ] as const) {
      await page.getByRole('link', { name }).click();
      await page.getByText(words).first().waitFor();
      await look(page, `server-${name.toLowerCase().split(' ', 1)[0]}`);
    }
    expect(errors).toEqual([]);
    await context.close();
  });

  it('does not revoke without --write', async () => {
    const console = await stage.console(['--server', store], { VALISE_KEYS: keys });
    const { page, context } = await stage.page(console.url);
    const button = page.getByRole('button', { name: 'Revoke work' });
    await button.waitFor();
    expect(await button.isDisabled()).toBe(true);
    await context.close();
  });
});
