import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { openValise } from 'mcp-valise/client';
import { generateKey } from 'mcp-valise/seal';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { signInHeadless } from '../../cli/src/tour/headless-sign-in.ts';
import { valise as run } from '../cli/valise.ts';
import { because } from '../skip.ts';
import { Fixture, HAS_BROWSER, type Opened } from './fixture.ts';
import { accessible, countShifts, look, shifted } from './screenshot.ts';

const PAINTER = fileURLToPath(new URL('./painter.mjs', import.meta.url));

let fixture: Fixture;
let opened: Opened;
let page: Page;
let urls: { shop: string; items: string; notebook: string; vault: string };
let store: string;

const screen = async (name: string): Promise<void> => {
  await page.getByRole('link', { name: new RegExp(`^${name}`) }).click();
  await page.getByRole('heading', { name, level: 1 }).waitFor();
};

describe.skipIf(!HAS_BROWSER)('the console of a client', because('needs Chromium'), () => {
  beforeAll(async () => {
    fixture = await Fixture.open();
    store = fixture.store();
    const keys = { VALISE_KEYS: generateKey() };
    const [shop, items, notebook, vault] = await Promise.all([
      fixture.start(['example', 'shop', '--http', '0', '--stateless'], keys),
      fixture.start(['example', 'work-items', '--http', '0', '--stateless'], keys),
      fixture.start(['example', 'notebook', '--http', '0', '--stateless'], keys),
      fixture.start(
        ['example', 'vault', '--http', '0', '--with-auth', '--store', fixture.store('vault')],
        keys,
      ),
    ]);
    urls = { shop: shop.url, items: items.url, notebook: notebook.url, vault: vault.url };
    // A host that signs in, and one that leaves a question open, some time before the console starts.
    const host = await openValise({ store, allowLocal: true, secrets: 'store', recordEvents: true });
    host.on('warning', () => {});
    const client = new Client({ name: 'host', version: '1.0.0' });
    await host.connect(client, urls.vault, { auth: { redirect: (at) => signInHeadless(at, 'ada') } });
    await client.callTool({ name: 'increment', arguments: {} });
    await client.close();
    await host.close();
    const bug = { workItemId: 4522, fields: { 'System.State': 'Resolved' } };
    const { code, stderr } = await run(
      ['call', urls.items, 'update_work_item', JSON.stringify(bug), '--store', store, '--allow-local'],
      { HOME: fixture.folder },
    );
    expect(code, stderr).toBe(3);
    const { url } = await fixture.console([
      '--store',
      store,
      '--write',
      urls.shop,
      urls.notebook,
      `stdio:node ${PAINTER}`,
    ]);
    opened = await fixture.page(url);
    ({ page } = opened);
  });
  afterAll(() => fixture?.close());

  it('shows an inbox question, validates the form, and completes the call with two answers', async () => {
    await screen('Questions');
    const card = page.getByRole('region', { name: /^Question of/ });
    await card.getByText('How was this bug resolved?').waitFor();
    await card.getByText('Arguments of the call').click();
    await card.getByText('"Resolved"').waitFor();
    await look(page, 'questions');
    await card.getByRole('button', { name: 'Accept' }).click();
    await card.getByText('This one is needed.').waitFor();
    await card.getByRole('button', { name: 'Later' }).click();
    await card.getByText('Left open').waitFor();
    await card.getByRole('button', { name: 'Answer now' }).click();
    await card.getByLabel(/resolution/i).selectOption('Duplicate');
    await card.getByRole('button', { name: 'Accept' }).click();
    // The next question of the same call.
    await page.getByText('which work item is the original?').waitFor();
    await page.getByLabel(/duplicateOfId/).fill('many');
    await page.getByRole('button', { name: 'Accept' }).click();
    await page.getByText('Write a number.').waitFor();
    await page.getByLabel(/duplicateOfId/).fill('4301');
    await page.getByRole('button', { name: 'Accept' }).click();
    await page.getByText('Bug #4522 resolved as Duplicate of Bug #4301').waitFor();
    await accessible(page);
    await page.getByRole('button', { name: 'Dismiss' }).click();
    await page.getByText('No open questions').waitFor();
  });

  it('calls a tool with a form from its schema, and shows the result and the history', async () => {
    await screen('Calls');
    await page.getByLabel('Server').selectOption(urls.shop);
    await page.getByLabel('Tool').selectOption('add_item');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.getByText('This one is needed.').waitFor();
    await page.getByLabel('item', { exact: true }).fill('cucumber');
    await page.getByLabel('price').fill('40');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.getByRole('region', { name: 'Result' }).getByText('Cart: cucumber; total 40').waitFor();
    await page.getByLabel('Tool').selectOption('remember');
    await page.getByLabel('name', { exact: true }).fill('address');
    await page.getByLabel('value', { exact: true }).fill('not json');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.getByText('Write JSON').waitFor();
    await page.getByLabel('value', { exact: true }).fill('"Rue de la Paix 1"');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.getByRole('region', { name: 'Result' }).getByText('Remembered address.').waitFor();
    await expect
      .poll(() => page.getByRole('region', { name: 'History' }).getByRole('listitem').count())
      .toBe(2);
    await look(page, 'calls');
  });

  it('calls a tool of a command, with choices, and shows its progress and its picture', async () => {
    await page.getByLabel('Server').selectOption({ index: await serverIndex(page, 'painter.mjs') });
    await page.getByLabel('colour').selectOption('red');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    const result = page.getByRole('region', { name: 'Result' });
    await result.getByText(/stroke \d/).waitFor();
    await result.getByText('red dot').waitFor();
    const width = await result
      .locator('img')
      .evaluate((img: HTMLImageElement) => img.decode().then(() => img.naturalWidth));
    expect(width).toBe(1);
  });

  it('calls a tool in a session that it makes by name, and keeps it', async () => {
    await page.getByLabel('Server').selectOption(urls.notebook);
    await page.getByLabel('Tool').selectOption('notebook_append');
    await page.getByLabel('Session').fill('diary');
    await page.getByLabel('text', { exact: true }).fill('hello');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.getByRole('region', { name: 'Result' }).getByText('Done').waitFor();
    await screen('State');
    await page.getByRole('button', { name: /All sessions/ }).click();
    await page.getByRole('table', { name: 'Sessions' }).getByText('diary').waitFor();
    await accessible(page);
  });

  it('leaves a question that a called tool asks in the inbox, and declines it there', async () => {
    await screen('Calls');
    await page.getByLabel('Server').selectOption(urls.items);
    await page.getByLabel('workItemId').fill('7');
    await page.getByLabel('fields').fill('{"System.State":"Resolved"}');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.getByRole('link', { name: 'Answer it under Questions' }).click();
    await page.getByRole('button', { name: 'Decline' }).click();
    await page.getByRole('region', { name: /^Result of/ }).waitFor();
    await page.getByRole('button', { name: 'Dismiss' }).click();
    await page.getByText('No open questions').waitFor();
  });

  it('shows the state as a tree and a table, filters it, unfolds values, and leaves sealed ones closed', async () => {
    await screen('State');
    const table = page.getByRole('table', { name: 'Entries' });
    await table.getByRole('button', { name: 'Cart Contents' }).click();
    await page.getByRole('region', { name: 'Entry Cart Contents' }).getByText('"cucumber"').waitFor();
    const row = table.getByRole('row', { name: /Cart Contents/ });
    expect(await row.innerText()).toMatch(/add_item/);
    expect(await row.innerText()).toMatch(/plain/);
    await page.getByRole('button', { name: '127.0.0.1' }).first().click();
    for (const part of ['Jar · session', 'Jar · server', 'Sessions', 'Connection', 'Sign-in'])
      await page
        .getByRole('button', { name: new RegExp(`^${part}`) })
        .first()
        .waitFor();
    await table.getByRole('button', { name: 'address' }).click();
    await page.getByText('Only the server can read it').waitFor();
    expect(await page.content()).not.toContain('Rue de la Paix');
    await look(page, 'state');
    await page.getByPlaceholder(/Filter by server/).fill('remember');
    await expect.poll(() => table.getByRole('row').count()).toBe(2);
    await page.getByPlaceholder(/Filter by server/).fill('');
    await page.getByRole('button', { name: /^Connection/ }).click();
    await page.getByText('"2026-07-28"').first().waitFor();
    await page.getByRole('button', { name: /^Sign-in/ }).click();
    await page.getByText('"key-file"').waitFor();
  });

  it('exports the jar, deletes an entry, clears a kind and imports the file again', async () => {
    await page.getByRole('button', { name: /^All servers/ }).click();
    const table = page.getByRole('table', { name: 'Entries' });
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Export' }).click(),
    ]);
    const path = join(fixture.folder, 'jar.json');
    await file.saveAs(path);
    expect(
      JSON.parse(await readFile(path, 'utf8'))
        .entries.map(({ key }: { key: string }) => key)
        .sort(),
    ).toEqual(['Cart Contents', 'address']);
    await table.getByRole('button', { name: 'address' }).click();
    await page.getByRole('button', { name: 'Delete…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'Delete…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await table.getByRole('button', { name: 'address' }).waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Clear…' }).click();
    await accessible(page);
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('1 entry deleted.').waitFor();
    await page.locator('input[type=file]').setInputFiles(path);
    await page.getByText(/2 entries imported/).waitFor();
    await table.getByRole('button', { name: 'address' }).waitFor();
  });

  it('forgets a session', async () => {
    await page.getByRole('button', { name: /All sessions/ }).click();
    await page.getByRole('button', { name: 'Forget diary' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Forget' }).click();
    await page.getByText('No sessions are kept here').waitFor();
  });

  it('lists the servers with protocol, session, sign-in, jar and questions', async () => {
    await screen('Servers');
    const table = page.getByRole('table', { name: 'Servers' });
    const shop = table.getByRole('row').filter({ hasText: urls.shop });
    expect(await shop.innerText()).toMatch(/2026-07-28/);
    expect(await shop.innerText()).toMatch(/\/50/);
    const vault = table.getByRole('row').filter({ hasText: urls.vault });
    expect(await vault.innerText()).toMatch(/in 5\d minutes/);
    await look(page, 'servers');
  });

  it('shows a sign-in without any token, refreshes it, and signs out', async () => {
    await screen('Sign-ins');
    const card = page.getByRole('region', { name: /^Sign-in at/ });
    await card.getByText('signed in', { exact: true }).waitFor();
    await card.getByText('with a key in a file that only you can read').waitFor();
    await look(page, 'sign-ins');
    const before = await card.locator('time').first().getAttribute('datetime');
    await card.getByRole('button', { name: 'Refresh now' }).click();
    await page.getByText('New tokens have arrived.').waitFor();
    await expect.poll(() => card.locator('time').first().getAttribute('datetime')).not.toBe(before);
    const answer = await page.evaluate(() => fetch('api/sign-ins').then((response) => response.text()));
    expect(answer).not.toMatch(/access_token|refresh_token|ey[A-Za-z0-9]{10}/);
    await card.getByRole('button', { name: 'Sign out…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Sign out' }).click();
    await page.getByText('You are not signed in anywhere').waitFor();
    await page.getByText('Signed out and forgotten.').waitFor();
  });

  it('draws the messages between lanes with their state, filters, pauses, saves and loads them', async () => {
    await screen('Timeline');
    await page.getByText('tools/call').first().waitFor();
    await page.getByPlaceholder(/Filter by method/).fill('add_item');
    await page
      .getByRole('button', { name: /tools\/call/ })
      .first()
      .click();
    await page.getByRole('region', { name: 'Message' }).getByText('add_item').waitFor();
    await page.getByPlaceholder(/Filter by method/).fill('');
    await page.getByPlaceholder(/Filter by method/).fill('Cart: cucumber');
    await page.getByRole('combobox', { name: 'Kind' }).selectOption('state');
    await page
      .getByRole('button', { name: /result/ })
      .first()
      .click();
    await page
      .getByRole('region', { name: 'Message' })
      .getByText('session state "Cart Contents"')
      .first()
      .waitFor();
    await page.getByPlaceholder(/Filter by method/).fill('');
    await look(page, 'timeline');
    await page.getByRole('combobox', { name: 'Kind' }).selectOption('all');
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Save' }).click(),
    ]);
    const path = join(fixture.folder, 'timeline.json');
    await file.saveAs(path);
    const saved = await readFile(path, 'utf8');
    expect(saved).toContain('Cart Contents');
    // What the user answered is not part of it.
    expect(saved).not.toContain('duplicateOfId');
    await page.getByRole('button', { name: 'Pause' }).click();
    // Another process, which records its events, changes the store.
    const other = await openValise({ store, allowLocal: true, recordEvents: true });
    other.on('warning', () => {});
    await other.jar.clear({ key: 'address' });
    await other.close();
    await page.getByRole('button', { name: /Resume \(\d+ new\)/ }).click();
    await page
      .getByText(/deleted server state "address"/)
      .first()
      .waitFor();
    await page.locator('input[type=file]').setInputFiles(path);
    // What happened after it was saved is not in the file.
    await page.getByText(`A saved timeline: ${JSON.parse(saved).moments.length} moments.`).waitFor();
    await page.getByPlaceholder(/Filter by method/).fill('add_item');
    await page
      .getByRole('button', { name: /tools\/call/ })
      .first()
      .waitFor();
    await page.getByPlaceholder(/Filter by method/).fill('');
    await page.getByRole('button', { name: 'Back to live' }).click();
  });

  it("shows the doctor's findings and the keys, and examines a server", async () => {
    await screen('Health');
    await page
      .getByRole('list', { name: 'This machine' })
      .getByText('can be written, read, compared and leased')
      .waitFor();
    await page.getByRole('region', { name: 'Keys of servers' }).waitFor();
    await page.getByRole('combobox', { name: 'Server' }).selectOption(urls.shop);
    await page.getByRole('button', { name: 'Examine', exact: true }).click();
    await page.getByRole('list', { name: 'The server' }).getByText('Offered in').first().waitFor();
    await page.evaluate(() => document.querySelector('main')?.scrollTo(0, 0));
    await look(page, 'health');
  });

  it('works on a narrow screen and with the keyboard alone', async () => {
    await page.setViewportSize({ width: 390, height: 780 });
    for (const name of ['Servers', 'State', 'Questions', 'Sign-ins', 'Calls', 'Timeline', 'Health']) {
      await screen(name);
      await accessible(page);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      expect(overflow, name).toBeLessThanOrEqual(0);
    }
    await screen('State');
    await look(page, 'narrow');
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.reload();
    await page.locator('.shell').waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    expect(await page.evaluate(() => document.activeElement?.id)).toBe('content');
    await page.getByRole('region', { name: 'Entries' }).focus();
    await page.keyboard.press('ArrowDown');
    await page.getByRole('region', { name: /^Entry/ }).waitFor();
  });

  it('has reported no error and broken no policy', () => {
    expect(opened.errors).toEqual([]);
  });
});

async function serverIndex(of: Page, words: string): Promise<number> {
  const options = await of.getByLabel('Server').locator('option').allInnerTexts();
  return options.findIndex((option) => option.includes(words));
}

describe.skipIf(!HAS_BROWSER)('an empty console', because('needs Chromium'), () => {
  let empty: Fixture;
  beforeAll(async () => {
    empty = await Fixture.open();
  });
  afterAll(() => empty?.close());

  it('explains on every screen what would be there, without a layout shift, and creates no store', async () => {
    const { url } = await empty.console(['--store', empty.store('none')]);
    const own = await empty.page('about:blank', {}, false);
    await countShifts(own.page);
    await own.page.goto(url);
    for (const [name, words] of [
      ['Servers', 'No server has been used'],
      ['State', 'Nothing is kept yet'],
      ['Questions', 'No open questions'],
      ['Sign-ins', 'You are not signed in anywhere'],
      ['Calls', 'No server to call'],
      ['Timeline', 'Nothing has happened yet'],
    ] as const) {
      await own.page.getByRole('link', { name: new RegExp(`^${name}`) }).click();
      await own.page.getByText(words).waitFor();
      await accessible(own.page);
      if (name === 'State') await look(own.page, 'empty');
    }
    await own.page.getByText('Not all is seen').waitFor();
    expect(await shifted(own.page)).toBeLessThan(0.05);
    await expect(readFile(join(empty.folder, 'none.db'))).rejects.toThrow('ENOENT');
  });
});
