import { once } from 'node:events';
import { chmod, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Redis } from 'ioredis';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { parseTarget } from '../../cli/src/connection/target.ts';
import { checkTarget } from '../../cli/src/doctor/server-checks.ts';
import { noServices, startRedis } from '../services.ts';
import { browserIn } from './browser.ts';
import { of, type Report } from './report.ts';
import { folder, serveExample, valise, valiseJson } from './valise.ts';

describe('valise doctor', { timeout: 60_000 }, () => {
  it('tells what a server offers in each era, and what is missing', async () => {
    const env = { VALISE_KEYS: generateKey() };
    const { url } = await serveExample(['notebook'], env);
    const report = await valiseJson<Report>(
      ['doctor', url, '--store', `sqlite:${join(await folder(), 'state.db')}`],
      env,
    );
    expect(of(report, 'keys')).toMatchObject({ status: 'ok' });
    expect(of(report, 'store')).toMatchObject({ status: 'ok' });
    expect(of(report, 'permissions')).toMatchObject({ status: 'ok' });
    expect(of(report, 'era legacy')).toMatchObject({
      status: 'ok',
      what: expect.stringContaining('2025-11-25'),
    });
    expect(of(report, 'era modern')).toMatchObject({
      status: 'ok',
      what: expect.stringContaining('2026-07-28'),
    });
    expect(of(report, 'sessions')).toMatchObject({
      status: 'ok',
      what: expect.stringContaining('legacy and modern'),
    });
    expect(of(report, 'clock')).toMatchObject({ status: 'ok' });
    expect(of(report, 'keychain')).toBeDefined();
  });

  it('fails with the fix for a weak key, a store that does not open and a file that others can read', async () => {
    const path = join(await folder(), 'state.db');
    await valise(['doctor', '--store', `sqlite:${path}`]);
    await chmod(path, 0o644);
    const open = await valise(['doctor', '--store', `sqlite:${path}`]);
    expect(open.code).toBe(1);
    expect(open.stdout).toContain(`chmod 600`);
    const weak = await valise(['doctor', '--store', 'memory:'], {
      VALISE_KEYS: Buffer.alloc(32, 1).toString('base64url'),
    });
    expect(weak).toMatchObject({ code: 1, stdout: expect.stringMatching(/FAIL +keys/) });
    expect(weak.stdout).toContain('valise keys generate');
    const unknown = await valise(['doctor', '--store', 'gopher://x']);
    expect(unknown).toMatchObject({ code: 1, stdout: expect.stringMatching(/FAIL +store/) });
  });

  it.each(['http://127.0.0.1:9/mcp', 'stdio:false'])(
    'says once what to do about a target that is not there: %s',
    async (target) => {
      const report = await valiseJson<Report>(['doctor', target, '--store', 'memory:']);
      expect(of(report, 'target')).toMatchObject({
        status: 'fail',
        what: expect.stringContaining(target),
        fix: expect.any(String),
      });
      // No advice about eras where both fail.
      expect(JSON.stringify(report)).not.toContain('--era');
    },
  );

  it.skipIf(noServices)('warns of a Redis that takes entries away when its memory is full', async () => {
    const server = await startRedis();
    onTestFinished(() => server.stop());
    const admin = new Redis(server.url);
    onTestFinished(() => admin.disconnect());
    const store = async (limit: string, policy: string) => {
      await admin.config('SET', 'maxmemory', limit, 'maxmemory-policy', policy);
      return of(await valiseJson<Report>(['doctor', '--store', server.url]), 'store');
    };
    await admin.config('SET', 'appendonly', 'yes');
    for (const policy of ['allkeys-lru', 'volatile-ttl'])
      expect(await store('50mb', policy)).toMatchObject({
        status: 'warn',
        what: expect.stringContaining(policy),
        fix: expect.stringContaining('noeviction'),
      });
    expect(await store('50mb', 'noeviction')).toMatchObject({ status: 'ok' });
    // Without a limit it is never full; and who may not ask says nothing.
    expect(await store('0', 'allkeys-lru')).toMatchObject({ status: 'ok' });
    await admin.call('acl', 'setuser', 'default', '-info');
    expect(await store('50mb', 'allkeys-lru')).toMatchObject({ status: 'ok' });
  });

  it.skipIf(noServices)('warns of a Redis that a restart or a failover would empty', async () => {
    const primary = await startRedis();
    onTestFinished(() => primary.stop());
    const replica = await startRedis({ args: ['--replicaof', '127.0.0.1', String(primary.port)] });
    onTestFinished(() => replica.stop());
    const admin = new Redis(primary.url);
    onTestFinished(() => admin.disconnect());
    await expect.poll(() => admin.info('replication')).toContain('state=online');
    const store = async () => of(await valiseJson<Report>(['doctor', '--store', primary.url]), 'store');
    expect(await store()).toMatchObject({ status: 'warn', fix: expect.stringContaining('appendonly yes') });
    await admin.config('SET', 'appendonly', 'yes');
    expect(await store()).toMatchObject({
      status: 'warn',
      fix: expect.stringContaining('min-replicas-to-write'),
    });
    await admin.config('SET', 'min-replicas-to-write', '1');
    expect(await store()).toMatchObject({ status: 'ok' });
  });

  it('finds nothing wrong with a sealed store, whether the keys are in the environment or in a file', async () => {
    const path = await folder();
    const keys = generateKey();
    const file = join(path, 'keys.env');
    await writeFile(file, `VALISE_KEYS=${keys}\n`, { mode: 0o600 });
    const store = ['--store', `sqlite:${join(path, 'state.db')}`];
    const odd = `stdio:${process.execPath} ${join(import.meta.dirname, 'odd-server.mjs')}`;
    expect(await valise(['call', odd, 'first', ...store], { VALISE_CLIENT_KEYS: keys })).toMatchObject({
      code: 0,
    });
    for (const report of [
      await valiseJson<Report>(['doctor', ...store], { VALISE_CLIENT_KEYS: keys }),
      await valiseJson<Report>(['doctor', '--key-file', file, ...store]),
    ])
      expect(of(report, 'store')).toMatchObject({ status: 'ok' });
    expect(of(await valiseJson<Report>(['doctor', ...store]), 'store')).toMatchObject({ status: 'fail' });
  });

  it('says once that a file of keys cannot be read, and asks for the file, not for new keys', async () => {
    const path = join(await folder(), 'nope.env');
    const report = await valiseJson<Report>(['doctor', '--key-file', path, '--store', 'memory:']);
    expect(of(report, 'client keys')).toEqual({
      check: 'client keys',
      status: 'fail',
      what: expect.stringMatching(/cannot be read \(ENOENT[^)]*\)\.$/),
      fix: 'Check the path and its permissions.',
    });
    expect(of(report, 'store')).toMatchObject({ status: 'warn', what: expect.not.stringContaining(path) });
  });

  it('says that a server needs sign-in, and looks at it as whoever has signed in', async () => {
    const path = await folder();
    const env = { VALISE_KEYS: generateKey(), VALISE_BROWSER: await browserIn(path) };
    const { url } = await serveExample(['vault', '--with-auth'], env);
    const store = ['--store', `sqlite:${join(path, 'state.db')}`];
    const before = await valiseJson<Report>(['doctor', url, ...store], env);
    expect(before.findings.filter(({ status }) => status === 'fail')).toEqual([
      {
        check: 'sign-in',
        status: 'fail',
        what: expect.stringContaining('needs sign-in'),
        fix: expect.stringContaining(`valise list ${url}`),
      },
    ]);
    const header = await valiseJson<Report>(
      ['doctor', url, '-H', 'Authorization: Bearer bad', ...store],
      env,
    );
    expect(of(header, 'sign-in')).toMatchObject({
      what: expect.stringContaining('does not take the header'),
    });
    expect(await valise(['list', url, ...store], env)).toMatchObject({ code: 0 });
    // A doctor changes nothing: no page is opened, and none is needed.
    const after = await valiseJson<Report>(['doctor', url, ...store], {
      ...env,
      VALISE_BROWSER: '/bin/false',
    });
    expect(of(after, 'sign-in')).toMatchObject({ status: 'ok' });
    expect(of(after, 'era legacy')).toMatchObject({ status: 'ok' });
    expect(of(after, 'the jar')).toMatchObject({ status: 'ok' });
  });

  it('says what deletion and revocation of sessions mean with a store, and without', async () => {
    const env = { VALISE_KEYS: generateKey() };
    const path = await folder();
    const told = async (...args: string[]) => {
      const { url } = await serveExample(['notebook', ...args], env);
      return of(await valiseJson<Report>(['doctor', url, '--store', 'memory:'], env), 'revocation');
    };
    expect(await told()).toMatchObject({
      status: 'warn',
      what: expect.stringContaining('until it expires'),
      fix: expect.stringContaining('store'),
    });
    expect(await told('--store', `sqlite:${join(path, 'server.db')}`)).toMatchObject({
      status: 'ok',
      what: expect.stringContaining('every instance at once'),
    });
  });

  it.each([
    ['v1', ['initialize']],
    ['v2', ['initialize', 'server/discover']],
  ] as const)(
    'gives up on a server that never answers, and says what it did not answer (%s)',
    async (sdk, methods) => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
      onTestFinished(() => void vi.useRealTimers());
      const heard: unknown[] = [];
      const server = createServer(async (request) => {
        heard.push((JSON.parse(await text(request)) as { readonly method: unknown }).method);
        await vi.advanceTimersByTimeAsync(10_000);
      }).listen(0, '127.0.0.1');
      await once(server, 'listening');
      onTestFinished(() => {
        server.closeAllConnections();
        server.close();
      });
      const target = parseTarget(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
      const findings = await checkTarget(target, { sdk, era: 'auto', resolve: [], header: {}, env: [] });
      expect(heard).toEqual(methods);
      expect(of({ findings }, 'target')).toMatchObject({
        status: 'fail',
        what: expect.stringContaining('It did not answer `initialize` within 10 s.'),
        fix: expect.stringContaining('whether the server is up'),
      });
    },
  );

  it('says which --resolve was of no use', async () => {
    const { url } = await serveExample(['shop']);
    const unused = ['--resolve', 'nosuch.example.com:443:127.0.0.1'];
    const { stderr } = await valise(['doctor', url, '--store', 'memory:', ...unused]);
    expect(stderr).toContain('--resolve nosuch.example.com:443 was not used');
  });

  it('shows the last lines that a command wrote to stderr before it died', async () => {
    const path = join(await folder(), 'crash.mjs');
    await writeFile(path, "console.error('first\\nError: no API_KEY in the environment'); process.exit(1);");
    const report = await valiseJson<Report>([
      'doctor',
      `stdio:${process.execPath} ${path}`,
      '--store',
      'memory:',
    ]);
    expect(of(report, 'target')).toMatchObject({
      status: 'fail',
      what: expect.stringMatching(/It wrote: first \/ Error: no API_KEY in the environment$/),
    });
  });

  it('warns of nothing about a server without Valise, and says what works with it', async () => {
    const odd = `stdio:${process.execPath} ${join(import.meta.dirname, 'odd-server.mjs')}`;
    const report = await valiseJson<Report>(['doctor', odd, '--store', 'memory:']);
    const ofServer = report.findings.filter(({ check }) =>
      /^(era|families|the jar|sessions|rounds)/.test(check),
    );
    expect(ofServer.map(({ check, status }) => `${check}: ${status}`)).toEqual([
      'era legacy: ok',
      'era modern: ok',
      'families: ok',
    ]);
    expect(of(report, 'families')?.what).toContain('Calls, sign-in and questions work');
    expect(JSON.stringify(report)).not.toContain('install Valise');
  });

  it('does not ask for Valise where it is', async () => {
    const { url } = await serveExample(['shop']);
    const report = await valiseJson<Report>(['doctor', url, '--store', 'memory:']);
    expect(of(report, 'rounds')).toMatchObject({
      status: 'ok',
      what: expect.stringContaining('asks no questions'),
    });
  });
});
