import { generateKey } from 'mcp-valise/seal';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { valise as run } from '../cli/valise.ts';
import { type Service, startRedis } from '../services.ts';
import { because } from '../skip.ts';
import { Fixture, HAS_BROWSER } from './fixture.ts';
import { hostOf, type Operated, serveOperated } from './operated-server.ts';
import { accessible, look } from './screenshot.ts';

const keys = generateKey();
const admin = { authorization: 'Bearer admin' };

describe.skipIf(!HAS_BROWSER)('the console of a server', because('needs Chromium and Redis'), () => {
  let fixture: Fixture;
  let redis: Service;
  let servers: Operated[];
  let ada: Awaited<ReturnType<typeof hostOf>>;

  beforeAll(async () => {
    fixture = await Fixture.open();
    // Redis does not list the records of sessions and flows, so the console has to scan for them.
    redis = await startRedis();
    const options = { keys, store: redis.url, recordEvents: true };
    servers = [await serveOperated(options, { write: true })];
    const [{ url }] = servers as [Operated];
    ada = await hostOf('ada', url);
    for (const label of ['diary', 'work']) await ada.host.sessions(ada.client).create({ label });
    const listened = await ada.host.sessions(ada.client).create({ label: 'news' });
    await listened.listen(() => {});
    await ada.client.callTool({ name: 'order', arguments: { item: 'shirt' } }).catch(() => undefined);
    const stranger = await hostOf(undefined, url);
    await stranger.host.sessions(stranger.client).create({ label: 'guest' });
    // Somebody changes the seal of a session.
    await forge(url);
    await stranger.close();
  });
  afterAll(async () => {
    await ada?.close();
    for (const server of servers ?? []) await server.close();
    await fixture?.close();
    await redis?.stop();
  });

  it('valise console --server shows sessions by principal against the limits of the server, and revokes one for its client', async () => {
    const { url } = await fixture.console(['--server', redis.url, '--write', '--name', 'shop'], {
      VALISE_KEYS: keys,
    });
    const { page, context, errors } = await fixture.page(url);
    const table = page.getByRole('table', { name: 'Sessions' });
    const diary = table.getByRole('row', { name: /diary/ });
    await diary.getByText('3 of 5').waitFor();
    await diary.getByText('in the store').waitFor();
    await table.getByRole('row', { name: /guest/ }).getByText('anonymous').waitFor();
    await page.getByText(/of 2 principals, \d+ anonymous, 0 ended/).waitFor();
    await look(page, 'server-sessions');
    const { client, host } = ada;
    const session = await host.sessions(client).named('diary');
    await session.run(() => client.callTool({ name: 'visit', arguments: {} }));
    await page.getByRole('button', { name: 'Revoke diary' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await diary.getByText('revoked').waitFor();
    await expect(session.run(() => client.callTool({ name: 'visit', arguments: {} }))).rejects.toThrow();
    expect(errors).toEqual([]);
    await context.close();
  });

  it('valise console --server shows stored flows by tool, question, age, time left and effects, and only with the keys', async () => {
    const { url } = await fixture.console(['--server', redis.url], { VALISE_KEYS: keys });
    const { page, context } = await fixture.page(url);
    await page.getByRole('link', { name: 'Flows' }).click();
    const row = page.getByRole('table', { name: 'Flows' }).getByRole('row').nth(1);
    await row.getByText('order').waitFor();
    const words = await row.innerText();
    for (const each of ['size', 'reserve stock', 'in ']) expect(words).toContain(each);
    // The age, which is short here.
    expect(words).toMatch(/just now| ago/);
    await page.getByText('Not answered so far').waitFor();
    await look(page, 'server-flows');
    await context.close();
    const blind = await fixture.console(['--server', redis.url]);
    const other = await fixture.page(blind.url);
    await other.page.getByRole('link', { name: 'Flows' }).click();
    await other.page.getByRole('table', { name: 'Flows' }).getByText('sealed').waitFor();
    expect(await other.page.content()).not.toContain('reserve stock');
    await other.context.close();
  });

  it('valise console --server shows what every process has recorded: rejections, keys in traffic, listeners, store times', async () => {
    const { url } = await fixture.console(['--server', redis.url], { VALISE_KEYS: keys });
    const { page, context, errors } = await fixture.page(url);
    await page.getByRole('link', { name: 'Rejections' }).click();
    const rejection = page.getByRole('region', { name: 'sessions: its seal was refused: tampered' });
    await rejection.getByText('somebody tries to forge one').waitFor();
    await rejection.getByText('1 time', { exact: true }).waitFor();
    await look(page, 'server-rejections');
    await page.getByRole('link', { name: 'Store and keys' }).click();
    await page.getByText('A read takes').waitFor();
    const processes = page.getByRole('region', { name: 'Processes' });
    await processes.getByText('1 of 1024').waitFor();
    await processes.getByText(/\d ms/).first().waitFor();
    await page.getByText('The store has answered every operation').waitFor();
    const [kid] = await page
      .getByRole('region', { name: 'Keys in the store' })
      .getByRole('row')
      .nth(1)
      .locator('code')
      .allInnerTexts();
    const traffic = page.getByRole('region', { name: 'Keys in traffic' }).getByRole('row').nth(1);
    expect(await traffic.innerText()).toContain(kid);
    expect(await traffic.innerText()).toMatch(/[1-9]\d* seals?/);
    await look(page, 'server-store');
    await page.setViewportSize({ width: 390, height: 780 });
    for (const name of ['Sessions', 'Flows', 'Rejections', 'Store and keys']) {
      await page.getByRole('link', { name }).click();
      await page.getByRole('heading', { name, level: 1 }).waitFor();
      await accessible(page);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      expect(overflow, name).toBeLessThanOrEqual(0);
    }
    expect(errors).toEqual([]);
    await context.close();
  });

  it('valise console --server says what it cannot see if no process records anything, and compares with the default limits', async () => {
    const store = fixture.store('quiet');
    const quiet = await serveOperated({ keys, store });
    onTestFinished(() => quiet.close());
    const host = await hostOf('bob', quiet.url);
    await host.host.sessions(host.client).create({ label: 'plain' });
    await host.close();
    const { url } = await fixture.console(['--server', store]);
    const { page, context } = await fixture.page(url);
    await page.getByRole('row', { name: /plain/ }).getByText('1 of 100').waitFor();
    await page.getByText('Default limits').waitFor();
    const button = page.getByRole('button', { name: 'Revoke plain' });
    expect(await button.isDisabled()).toBe(true);
    for (const name of ['Rejections', 'Store and keys']) {
      await page.getByRole('link', { name }).click();
      await page.getByText('No process of this server records what it sees').waitFor();
    }
    await page.getByRole('link', { name: 'Flows' }).click();
    await page.getByText('No flow is kept').waitFor();
    await context.close();
  });

  it('valise console --server shows a session that begins while the page is open', async () => {
    const { url } = await fixture.console(['--server', redis.url]);
    const { page, context } = await fixture.page(url);
    await page.getByRole('table', { name: 'Sessions' }).getByText('work').waitFor();
    await ada.host.sessions(ada.client).create({ label: 'later' });
    await page.getByRole('table', { name: 'Sessions' }).getByText('later').waitFor();
    await context.close();
  });

  it('valise console --server without --write refuses to revoke', async () => {
    const store = fixture.store('read');
    const { code } = await run(['store', 'copy', redis.url, store]);
    expect(code).toBe(0);
    const { url } = await fixture.console(['--server', store, '--name', 'shop'], { VALISE_KEYS: keys });
    const { page, context } = await fixture.page(url);
    const button = page.getByRole('button', { name: 'Revoke work' });
    await button.waitFor();
    expect(await button.isDisabled()).toBe(true);
    const status = await page.evaluate(async () => {
      const { sessions } = await (await fetch('api/operator/sessions')).json();
      const body = JSON.stringify({ id: sessions[0].key });
      const headers = { 'content-type': 'application/json' };
      return (await fetch('api/operator/revoke', { method: 'POST', headers, body })).status;
    });
    expect(status).toBe(403);
    await context.close();
  });

  it('valise.console() checks nobody itself, reads only without `write`, and refuses requests of other sites', async () => {
    const [{ origin }] = servers as [Operated];
    const at = `${origin}/operator/`;
    expect((await fetch(at)).status).toBe(401);
    expect((await fetch(`${at}package.json`, { headers: admin })).status).toBe(404);
    const { sessions } = await (await fetch(`${at}api/operator/sessions`, { headers: admin })).json();
    const { key } = sessions.find(({ label }: { label?: string }) => label === 'work');
    const post = (headers: Record<string, string>, id: string, where = at) =>
      fetch(`${where}api/operator/revoke`, {
        method: 'POST',
        headers: { ...admin, ...headers },
        body: JSON.stringify({ id }),
      });
    const json = { 'content-type': 'application/json' };
    expect((await post({ 'content-type': 'text/plain' }, key)).status).toBe(403);
    expect((await post({ ...json, 'sec-fetch-site': 'cross-site' }, key)).status).toBe(403);
    expect((await post(json, 'rounds/kept/x')).status).toBe(404);
    const reader = await serveOperated({ keys, store: redis.url });
    onTestFinished(() => reader.close());
    expect((await post(json, key, `${reader.origin}/operator/`)).status).toBe(405);
    // None of these has revoked it.
    const session = await ada.host.sessions(ada.client).named('work');
    await session.run(() => ada.client.callTool({ name: 'visit', arguments: {} }));
  });

  it('valise.console() shows the same in the server, with revoke, and what other instances have recorded', async () => {
    const other = await serveOperated({ keys, store: redis.url, recordEvents: true }, { write: true });
    onTestFinished(() => other.close());
    const { page, context, errors } = await fixture.page(`${other.origin}/operator/`, {
      extraHTTPHeaders: admin,
    });
    await page.getByRole('button', { name: 'Revoke work' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await page.getByRole('row', { name: /work/ }).getByText('revoked').waitFor();
    await page.getByRole('link', { name: 'Flows' }).click();
    await page.getByRole('table', { name: 'Flows' }).getByText('reserve stock').waitFor();
    expect(errors).toEqual([]);
    await context.close();
  });

  // This test halts Redis, so it is the last one.
  it('valise.console() shows errors of the store over time', async () => {
    const [{ origin, url }] = servers as [Operated];
    const { page, context } = await fixture.page(`${origin}/operator/#/store`, { extraHTTPHeaders: admin });
    await page.getByText('The store has answered every operation').waitFor();
    const guest = await hostOf('eve', url);
    const session = await guest.host.sessions(guest.client).create({ label: 'lost' });
    await redis.halt();
    await expect(
      session.run(() => guest.client.callTool({ name: 'visit', arguments: {} })),
    ).rejects.toThrow();
    const errors = page.getByRole('region', { name: 'store: store-unavailable' });
    await errors.getByText(/\d+ times?/).waitFor();
    await errors.getByRole('img', { name: /^By minute, oldest first: [\d, ]*[1-9]/ }).waitFor();
    await look(page, 'server-errors');
    await redis.start();
    await guest.close().catch(() => undefined);
    await context.close();
  });
});

/** Sends a session whose seal was changed, as a client could. */
async function forge(url: string): Promise<void> {
  const changed: typeof fetch = (input, init) =>
    fetch(input, {
      ...init,
      body: String(init?.body).replace(
        /("state":"v1\.[\w-]{8}\.[\w-]{40})(\w)/,
        (_, before: string, char: string) => before + (char === 'A' ? 'B' : 'A'),
      ),
    });
  const mallory = await hostOf('mallory', url, changed);
  const session = await mallory.host.sessions(mallory.client).create({ label: 'forged' });
  await session.run(() => mallory.client.callTool({ name: 'visit', arguments: {} })).catch(() => undefined);
  await mallory.close();
}
