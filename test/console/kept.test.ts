import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/client';
import { openValise } from 'mcp-valise/client';
import { generateKey, parseKeys } from 'mcp-valise/seal';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { signInHeadless } from '../../cli/src/tour/headless-sign-in.ts';
import { valise as run } from '../cli/valise.ts';
import { freePort } from '../services.ts';
import { because } from '../skip.ts';
import { Fixture, HAS_BROWSER } from './fixture.ts';
import { look } from './screenshot.ts';

const PATIENT = fileURLToPath(new URL('./patient-server.mjs', import.meta.url));
const DAYS_AGO = { NODE_OPTIONS: `--import=${new URL('./days-ago.mjs', import.meta.url)}` };

describe.skipIf(!HAS_BROWSER)('the console, of what others have kept,', because('needs Chromium'), () => {
  const keys = { VALISE_KEYS: generateKey() };
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await Fixture.open();
  });
  afterAll(() => fixture?.close());

  it('completes a call that a host left open three days ago, on a server that was restarted since', async () => {
    const port = await freePort();
    const store = fixture.store('days');
    const before = await fixture.run([PATIENT, String(port)], { ...keys, ...DAYS_AGO });
    const { code, stderr } = await run(
      ['call', before.url, 'book', '{"city":"Lisbon"}', '--store', store, '--allow-local'],
      { HOME: fixture.folder, ...DAYS_AGO },
    );
    expect(code, stderr).toBe(3);
    const ended = once(before.child, 'close');
    before.child.kill('SIGKILL');
    await ended;
    await fixture.run([PATIENT, String(port)], keys);

    const { url } = await fixture.console(['--store', store, '--write']);
    const { page, context, errors } = await fixture.page(url);
    await page
      .getByRole('table', { name: 'Servers' })
      .getByRole('row')
      .filter({ hasText: before.url })
      .getByText('1 open')
      .click();
    const card = page.getByRole('region', { name: `Question of ${before.url}` });
    await card.getByRole('heading', { name: 'book' }).waitFor();
    await card.getByText('3 days ago').waitFor();
    await card.getByText(/in [34] days/).waitFor();
    await card.getByText('Arguments of the call').click();
    await card.getByText('"Lisbon"').waitFor();
    await card.getByLabel(/nights/).fill('4');
    await card.getByRole('button', { name: 'Accept' }).click();
    await page.getByText('Lisbon, 4 nights').waitFor();
    expect(errors).toEqual([]);
    await context.close();
  });

  it('forgets a question without telling the server, and leaves it alone without --write', async () => {
    const store = fixture.store('forgotten');
    const { url: server } = await fixture.run([PATIENT, '0'], keys);
    const call = ['call', server, 'book', '{"city":"Rome"}', '--store', store, '--allow-local'];
    expect((await run(call, { HOME: fixture.folder })).code).toBe(3);
    const reading = await fixture.page((await fixture.console(['--store', store])).url);
    await reading.page.getByRole('link', { name: /^Questions/ }).click();
    for (const name of ['Accept', 'Decline', 'Forget'])
      expect(await reading.page.getByRole('button', { name }).first().isDisabled()).toBe(true);
    await reading.context.close();
    const { page, context } = await fixture.page((await fixture.console(['--store', store, '--write'])).url);
    await page.getByRole('link', { name: /^Questions/ }).click();
    await page.getByRole('button', { name: 'Forget' }).click();
    await page.getByText('No open questions').waitFor();
    await context.close();
  });

  it('shows entries that were refused or evicted in another process, with the reason', async () => {
    const store = fixture.store('refused');
    const { url: server } = await fixture.run([PATIENT, '0'], keys);
    const { url } = await fixture.console(['--store', store]);
    const { page, context, errors } = await fixture.page(url);
    const host = await openValise({ store, allowLocal: true, recordEvents: true });
    host.on('warning', () => {});
    onTestFinished(() => host.close());
    const client = new Client({ name: 'host', version: '1.0.0' });
    await host.connect(client, server);
    onTestFinished(() => client.close());
    await client.callTool({ name: 'fill', arguments: { count: 52 } });
    await client.callTool({ name: 'flood', arguments: {} });
    await page.getByRole('link', { name: 'State' }).click();
    await page.getByRole('button', { name: /^Refused and evicted/ }).click();
    const table = page.getByRole('table', { name: 'Refused and evicted' });
    const refused = table.getByRole('row', { name: /"flood"/ });
    await refused.getByText('refused', { exact: true }).waitFor();
    expect(await refused.innerText()).toMatch(/8192|8,192/);
    const evicted = table.getByRole('row', {
      name: /evicted.*server state "entry \d+": the quota keysPerServer is full/,
    });
    await expect.poll(() => evicted.count()).toBe(2);
    await look(page, 'refused');
    await page.getByRole('link', { name: 'Servers' }).click();
    await page.getByRole('table', { name: 'Servers' }).getByText('50/50').waitFor();
    expect(errors).toEqual([]);
    await context.close();
  });

  it('clears only the entries that the filter shows', async () => {
    const store = fixture.store('filtered');
    const { url: server } = await fixture.run([PATIENT, '0'], keys);
    const call = ['call', server, 'fill', '{"count":12}', '--store', store, '--allow-local'];
    expect((await run(call, { HOME: fixture.folder })).code).toBe(0);
    const { page, context } = await fixture.page((await fixture.console(['--store', store, '--write'])).url);
    await page.getByRole('link', { name: 'State' }).click();
    await page.getByPlaceholder(/Filter by server/).fill('entry 1');
    await page.getByRole('button', { name: 'Clear…' }).click();
    await page.getByRole('dialog').getByText('Delete 3 entries').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('3 entries deleted.').waitFor();
    await page.getByText('9 entries in the jar').waitFor();
    await context.close();
  });

  it('clears the sign-in, the sessions and the connection of a server from the tree, each by itself', async () => {
    const store = fixture.store('kinds');
    const vault = ['example', 'vault', '--http', '0', '--with-auth', '--store', fixture.store('kinds-vault')];
    const { url: server } = await fixture.start(vault, keys);
    const { url: notebook } = await fixture.start(
      ['example', 'notebook', '--http', '0', '--stateless'],
      keys,
    );
    const host = await openValise({ store, allowLocal: true, secrets: 'store' });
    host.on('warning', () => {});
    const [signedIn, inSession] = [1, 2].map(() => new Client({ name: 'host', version: '1.0.0' })) as [
      Client,
      Client,
    ];
    await host.connect(signedIn, server, { auth: { redirect: (at) => signInHeadless(at, 'ada') } });
    await host.connect(inSession, notebook);
    await host.sessions(inSession).named('diary');
    await signedIn.close();
    await inSession.close();
    await host.close();
    const { page, context } = await fixture.page((await fixture.console(['--store', store, '--write'])).url);
    await page.getByRole('link', { name: 'State' }).click();
    const clear = async (kind: string, yes: string): Promise<void> => {
      await page
        .getByRole('button', { name: new RegExp(`^${kind}`) })
        .first()
        .click();
      await page.getByRole('button', { name: 'Clear…' }).click();
      await page.getByRole('dialog').getByRole('button', { name: yes }).click();
    };
    await page.getByRole('button', { name: '127.0.0.1' }).first().click();
    await clear('Sign-in', 'Sign out');
    await page.getByText('Signed out.').waitFor();
    await clear('Sessions', 'Forget');
    await page.getByText('1 session forgotten.').waitFor();
    await clear('Connection', 'Forget');
    await page.getByText('Forgotten.', { exact: true }).waitFor();
    await context.close();
    const later = await openValise({ store, allowLocal: true, secrets: 'store' });
    later.on('warning', () => {});
    onTestFinished(() => later.close());
    expect(await later.connections.list()).toEqual([]);
    expect(await later.sessions.kept()).toEqual([]);
  });

  it('names the process that refreshes a sign-in at this moment', async () => {
    const store = fixture.store('lease');
    const vault = ['example', 'vault', '--http', '0', '--with-auth', '--store', fixture.store('vault')];
    const { url: server } = await fixture.start(vault, keys);
    const host = await openValise({ store, allowLocal: true, secrets: 'store' });
    host.on('warning', () => {});
    onTestFinished(() => host.close());
    const client = new Client({ name: 'host', version: '1.0.0' });
    await host.connect(client, server, { auth: { redirect: (at) => signInHeadless(at, 'ada') } });
    await client.close();
    const { page, context } = await fixture.page((await fixture.console(['--store', store])).url);
    await page.getByRole('link', { name: 'Sign-ins' }).click();
    const card = page.getByRole('region', { name: /^Sign-in at/ });
    await card.getByText('no process').waitFor();
    // The authorization server does not answer, so this process holds the lease until it does.
    let answer = (): void => {};
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const refreshing = host.connections.refresh(server, {
      fetch: async (input, init) => {
        if (String(init?.body).includes('refresh_token')) await answered;
        return fetch(input, init);
      },
    });
    await card.getByText(`process ${process.pid}`).waitFor();
    answer();
    expect(await refreshing).toBe(true);
    await card.getByText('no process').waitFor();
    await context.close();
  });

  it('counts how many entries each key still seals, by phase', async () => {
    const [older, newer, server] = [generateKey(), generateKey(), generateKey()] as const;
    const store = fixture.store('keys');
    const { url: target } = await fixture.run([PATIENT, '0'], { VALISE_KEYS: server });
    const fill = (count: number, ring: string) =>
      run(['call', target, 'fill', JSON.stringify({ count }), '--store', store, '--allow-local'], {
        HOME: fixture.folder,
        VALISE_CLIENT_KEYS: ring,
      });
    expect((await fill(3, older)).code).toBe(0);
    const ring = `${newer},${older}`;
    expect((await fill(5, ring)).code).toBe(0);
    const [now = '', before = ''] = parseKeys(ring).kids;
    const counts = await sealedBy(store);
    expect(counts.get(now)).toBeGreaterThan(0);
    expect(counts.get(before)).toBeGreaterThan(0);
    const { url } = await fixture.console(['--store', store], {
      VALISE_CLIENT_KEYS: ring,
      VALISE_KEYS: `${generateKey()},${server}`,
    });
    const { page, context } = await fixture.page(url);
    await page.getByRole('link', { name: 'Health' }).click();
    const own = page.getByRole('region', { name: 'Keys of this store' });
    const rowOf = (region: typeof own, kid: string) => region.getByRole('row').filter({ hasText: kid });
    await rowOf(own, now).getByText('seals and opens').waitFor();
    await rowOf(own, before).getByText('opens', { exact: true }).waitFor();
    expect(await rowOf(own, now).innerText()).toMatch(new RegExp(`\\b${counts.get(now)} entr`));
    expect(await rowOf(own, before).innerText()).toMatch(new RegExp(`\\b${counts.get(before)} entr`));
    const theirs = rowOf(
      page.getByRole('region', { name: 'Keys of servers' }),
      parseKeys(server).kids[0] ?? '',
    );
    expect(await theirs.innerText()).toMatch(/opens\s+5 entries/);
    await context.close();
  });
});

/** Counts the entries of a store by the key that seals each, by the key ids in the file itself. */
async function sealedBy(url: string): Promise<Map<string, number>> {
  const { openAsItIs } = await import('mcp-valise/internal');
  const store = await openAsItIs(url);
  const counts = new Map<string, number>();
  for (const key of (await store.list('')).keys) {
    const kid = /"v1\.([\w-]{8})\./.exec(JSON.stringify((await store.get(key))?.value))?.[1];
    if (kid !== undefined) counts.set(kid, (counts.get(kid) ?? 0) + 1);
  }
  await store.close();
  return counts;
}
