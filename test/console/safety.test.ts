import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
import { openValise } from 'mcp-valise/client';
import { createSealer, generateKey } from 'mcp-valise/seal';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { because } from '../skip.ts';
import { ask, Fixture, HAS_BROWSER } from './fixture.ts';

const MARKUP = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>';
const SECRET = 'Rue de la Paix 1';

const keys = generateKey();
const sealed = createSealer({ keys, audience: 'shop' }).seal(SECRET, { purpose: 'state', ttl: '1h' });

/** Puts entries into a store as a server would have set them. */
async function fill(store: string): Promise<void> {
  const valise = await openValise({ store });
  const entry = (key: string, value: unknown) => ({
    server: 'shop.example.com',
    scope: 'server',
    key,
    value,
    setAt: new Date(),
    expiresAt: new Date(Date.now() + 86_400_000),
  });
  const { refused } = await valise.jar.import({
    version: 1,
    entries: [entry('address', sealed), entry(MARKUP, { note: MARKUP }), entry('theme', 'dark')],
  });
  expect(refused).toEqual([]);
  await valise.close();
}

let fixture: Fixture;
let origin: string;
let port: string;
let link: string;
let cookie: string;

beforeAll(async () => {
  fixture = await Fixture.open();
  await fill(fixture.store());
  ({ url: link } = await fixture.console(['--store', fixture.store()]));
  ({ origin, port } = new URL(link));
  const entered = await ask(link);
  cookie = String(entered.headers['set-cookie']).split(';', 1)[0] as string;
});
afterAll(() => fixture.close());

const json = { 'content-type': 'application/json' };
const read = (path: string, headers: Record<string, string> = {}) =>
  ask(`${origin}/api/${path}`, { headers: { cookie, ...headers } });
const write = (path: string, body: object, headers: Record<string, string> = {}) =>
  ask(`${origin}/api/${path}`, {
    method: 'POST',
    headers: { cookie, origin, ...json, ...headers },
    body: JSON.stringify(body),
  });

describe('the console', () => {
  it('listens on 127.0.0.1 only', async () => {
    const others = Object.values(networkInterfaces())
      .flat()
      .filter((each) => each?.family === 'IPv4' && !each.internal);
    for (const { address } of others as { address: string }[])
      await expect(ask(`http://${address}:${port}/`)).rejects.toThrow(/ECONNREFUSED/);
    expect((await ask(`${origin}/`)).status).toBe(401);
  });

  it('accepts the token of its link once', async () => {
    const again = await ask(link);
    expect(again.status).toBe(401);
    expect(again.headers['set-cookie']).toBeUndefined();
    expect(again.body).toContain('works once');
  });

  it('sets a cookie that scripts cannot read and other sites do not send', async () => {
    const { url } = await fixture.console(['--store', fixture.store()]);
    const { headers } = await ask(url);
    expect(String(headers['set-cookie'])).toMatch(/; HttpOnly; SameSite=Strict$/);
    expect(String(headers['set-cookie'])).toContain('; Path=/;');
    // The token is not the cookie.
    expect(String(headers['set-cookie'])).not.toContain(new URL(url).searchParams.get('token'));
  });

  it.each(['/', '/app.js', '/api/meta', '/api/state', '/api/live'])(
    'refuses %s without the cookie, and with a wrong one',
    async (path) => {
      expect((await ask(origin + path)).status).toBe(401);
      const wrong = cookie.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A'));
      expect((await ask(origin + path, { headers: { cookie: wrong } })).status).toBe(401);
      expect((await ask(origin + path, { headers: { cookie: 'valise-console=1' } })).status).toBe(401);
    },
  );

  it.each([
    'evil.example',
    'evil.example:{port}',
    '127.0.0.1',
    'localhost:1',
    '127.0.0.1.evil.example:{port}',
  ])('refuses the host "%s", which a rebound name would send', async (host) => {
    const { status } = await read('meta', { host: host.replace('{port}', port) });
    expect(status === 421 || status === 400).toBe(true);
  });

  it.each(['http://evil.example', 'null', 'http://127.0.0.1:1', 'https://127.0.0.1:{port}'])(
    'refuses the origin %s, for reading and for writing',
    async (from) => {
      const other = from.replace('{port}', port);
      expect((await read('meta', { origin: other })).status).toBe(403);
      expect((await write('state/open', {}, { origin: other })).status).toBe(403);
    },
  );

  it('refuses a POST without an origin, and requests that a browser marks as of another site', async () => {
    const { status } = await ask(`${origin}/api/state/open`, {
      method: 'POST',
      headers: { cookie, ...json },
      body: '{}',
    });
    expect(status).toBe(403);
    expect((await read('meta', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' })).status).toBe(
      403,
    );
  });

  it('refuses bodies that a form of another site could send, and bodies without end', async () => {
    expect((await write('state/open', {}, { 'content-type': 'text/plain' })).body).toContain(
      'invalid-argument',
    );
    const large = 'x'.repeat(17 * 1024 * 1024);
    const outcome = await write('state/open', { large }).catch((error: Error) => ({ body: error.message }));
    expect(outcome.body).toMatch(/invalid-argument|EPIPE|ECONNRESET/);
  });

  it.each([
    ['state/delete', { server: 'shop.example.com' }],
    ['state/import', { exported: { version: 1, entries: [] } }],
    ['sessions/forget', { ids: ['x'] }],
    ['connections/forget', { id: 'https://x.example/mcp' }],
    ['questions/answer', { id: 'x', action: 'accept' }],
    ['questions/drop', { id: 'x' }],
    ['sign-ins/refresh', { id: 'https://x.example/mcp' }],
    ['sign-ins/sign-out', { id: 'https://x.example/mcp' }],
    ['calls/tools', { server: 'https://x.example/mcp' }],
    ['calls/run', { server: 'https://x.example/mcp', tool: 'x' }],
    ['health/server', { server: 'https://x.example/mcp' }],
  ])('does not run %s without --write', async (path, body) => {
    const { status, body: text } = await write(path, body);
    expect(status).toBe(403);
    expect(text).toContain('--write');
    expect(JSON.parse((await read('state')).body).entries).toHaveLength(3);
  });

  it('with --write connects only to servers that the store or the command line names', async () => {
    const { url } = await fixture.console(['--store', fixture.store('other'), '--write']);
    const { headers } = await ask(url);
    const own = String(headers['set-cookie']).split(';', 1)[0] as string;
    const there = new URL(url).origin;
    for (const server of [
      'stdio:["touch","/tmp/hacked","/"]',
      'http://127.0.0.1:1/mcp',
      `${there}/api/meta`,
    ]) {
      const { body } = await ask(`${there}/api/calls/tools`, {
        method: 'POST',
        headers: { cookie: own, origin: there, ...json },
        body: JSON.stringify({ server }),
      });
      expect(body).toContain('does not know where this server is');
    }
  });

  it('serves its four files and nothing else', async () => {
    for (const path of [
      '/main.js',
      '/../main.js',
      '/%2e%2e/main.js',
      '/console/app.js',
      '/package.json',
      '//app.js',
    ])
      expect((await ask(origin + path, { headers: { cookie } })).status).toBeGreaterThanOrEqual(400);
    for (const name of ['constructor', '__proto__', 'GET%20meta'])
      expect((await read(name)).status).toBe(404);
  });

  it('forbids inline script, other origins, frames and markup from strings', async () => {
    for (const path of ['/', '/app.js', '/api/meta']) {
      const { headers } = await ask(origin + path, { headers: { cookie } });
      const policy = String(headers['content-security-policy']);
      expect(policy).toContain("default-src 'none'");
      expect(policy).toContain("script-src 'self'");
      expect(policy).not.toContain('unsafe');
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy).toContain("require-trusted-types-for 'script'");
      expect(headers['x-content-type-options']).toBe('nosniff');
      expect(headers['cache-control']).toBe('no-store');
      expect(headers['access-control-allow-origin']).toBeUndefined();
    }
    const page = (await ask(`${origin}/`, { headers: { cookie } })).body;
    expect(page).not.toMatch(/<script(?![^>]*src=)|<style|\son\w+=|https?:/);
  });

  it('never sends a sealed value, only its key and size', async () => {
    const body =
      (await read('state')).body +
      (await read('state/value?server=shop.example.com&scope=server&key=address')).body;
    expect(body).toContain('"sealed"');
    expect(body).not.toContain(sealed);
    expect(body).not.toContain(sealed.slice(20, 60));
    expect(body).not.toContain(SECRET);
  });

  it('opens a sealed value only with its key', async () => {
    const entry = { server: 'shop.example.com', scope: 'server', key: 'address' };
    const wrong = await write('state/open', { ...entry, keys: generateKey() });
    expect(wrong.status).toBe(400);
    expect(wrong.body).not.toContain(SECRET);
    const odd = await write('state/open', { ...entry, keys: 'not-a-key-but-a-secret' });
    expect(odd.body).toContain('invalid-key');
    expect(odd.body).not.toContain('not-a-key-but-a-secret');
    const right = await write('state/open', { ...entry, keys });
    expect(JSON.parse(right.body).opened.value).toBe(SECRET);
  });
});

describe.skipIf(!HAS_BROWSER)('in a browser', because('needs Chromium'), () => {
  it('the link leads to the page, leaves no token in its address, and another site cannot reach the console', async () => {
    const { url } = await fixture.console(['--store', fixture.store()]);
    const { page, context, errors } = await fixture.page(url);
    await page.getByRole('heading', { name: 'Servers', level: 1 }).waitFor();
    expect(page.url()).toBe(`${new URL(url).origin}/`);
    expect(await page.evaluate('document.cookie')).toBe('');
    const there = new URL(url).origin;
    // A page of another origin on this machine, in the same browser.
    const foreign = createServer((_, response) =>
      response.setHeader('content-type', 'text/html').end('<p>x</p>'),
    );
    onTestFinished(() => void foreign.close());
    await once(foreign.listen(0, '127.0.0.1'), 'listening');
    const other = await context.newPage();
    await other.goto(`http://127.0.0.1:${(foreign.address() as AddressInfo).port}/`);
    const tried = await other.evaluate(async (target) => {
      const outcomes: string[] = [];
      for (const init of [{}, { mode: 'no-cors' }, { method: 'POST', body: '{}' }] as RequestInit[])
        outcomes.push(
          await fetch(`${target}/api/state`, { credentials: 'include', ...init }).then(
            (response) => `${response.type} ${response.status}`,
            () => 'failed',
          ),
        );
      return outcomes;
    }, there);
    expect(tried).not.toContain('cors 200');
    for (const each of tried) expect(['failed', 'opaque 0']).toContain(each);
    expect(errors).toEqual([]);
    await context.close();
  });

  it('shows what a server sends as text, and runs nothing of it', async () => {
    const { url } = await fixture.console(['--store', fixture.store()]);
    const { page, context, errors } = await fixture.page(url);
    await page.goto(`${new URL(url).origin}/#/state`);
    await page.getByRole('button', { name: MARKUP }).click();
    await page.locator('.json-string').first().waitFor();
    expect(await page.locator('.details').innerText()).toContain(MARKUP);
    expect(await page.locator('main img').count()).toBe(0);
    expect(await page.evaluate('window.hacked')).toBeUndefined();
    // Trusted types: the page itself could not turn a string into markup.
    const sink = await page.evaluate(() => {
      try {
        document.body.innerHTML = '<b>x</b>';
        return 'done';
      } catch (error) {
        return (error as Error).name;
      }
    });
    expect(sink).toBe('TypeError');
    expect(errors.filter((each) => !/TrustedHTML/.test(each))).toEqual([]);
    await context.close();
  });

  it('keeps a key that the user gives neither in the page nor in the browser', async () => {
    const { url } = await fixture.console(['--store', fixture.store()]);
    const { page, context } = await fixture.page(url);
    await page.goto(`${new URL(url).origin}/#/state`);
    await page.getByRole('button', { name: 'address' }).click();
    await page.getByLabel('Keys of the server').fill(keys);
    await page.getByRole('button', { name: 'Open', exact: true }).click();
    await page.getByText(SECRET).waitFor();
    expect(await page.content()).not.toContain(keys);
    expect(JSON.stringify(await context.storageState())).not.toContain(keys);
    await page.reload();
    await page.getByRole('button', { name: 'address' }).click();
    await page.getByText('Only the server can read it').waitFor();
    expect(await page.content()).not.toContain(SECRET);
    await context.close();
  });
});
