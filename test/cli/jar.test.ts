import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { hasTmux, onTerminal } from './tmux.ts';
import { folder, serveExample, VALISE, valise, valiseJson } from './valise.ts';

describe('valise jar', () => {
  it('[J-12] lists, shows, exports and clears: one key, one scope, one server, everything', async () => {
    const { port } = await serveExample(['shop']);
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    const remember = (host: string, name: string) =>
      valise([
        'call',
        `http://${host}:${port}/mcp`,
        'remember',
        JSON.stringify({ name, value: host }),
        '--resolve',
        `${host}:${port}:127.0.0.1`,
        ...store,
      ]);
    for (const host of ['b.example.com', 'a.example.com'])
      for (const name of ['y', 'x']) await remember(host, name);
    const list = async (): Promise<string[]> => {
      const { entries } = await valiseJson<{ entries: { server: string; key: string }[] }>([
        'jar',
        'list',
        ...store,
      ]);
      return entries.map(({ server, key }) => `${server} ${key}`);
    };
    expect(await list()).toEqual([
      'a.example.com x',
      'a.example.com y',
      'b.example.com x',
      'b.example.com y',
    ]);
    const table = await valise(['jar', ...store]);
    expect(table.stdout.split('\n')[0]).toMatch(/^SERVER +SCOPE +KEY +SIZE +SET +EXPIRES$/);
    expect((await valise(['jar', 'show', 'a.example.com', ...store])).stdout).toMatch(/^server "x" "v1\./m);
    expect(await valiseJson(['jar', 'export', ...store])).toMatchObject({ version: 1 });
    expect(await valiseJson(['jar', 'clear', 'a.example.com', '--key', 'x', ...store])).toEqual({
      cleared: 1,
    });
    expect(await valiseJson(['jar', 'clear', `http://b.example.com:${port}/mcp`, ...store])).toEqual({
      cleared: 2,
    });
    expect(await list()).toEqual(['a.example.com y']);
    // One scope: there is nothing in the other one.
    for (const [scope, cleared] of [
      ['session', 0],
      ['server', 1],
    ] as const)
      expect(await valiseJson(['jar', 'clear', 'a.example.com', '--scope', scope, ...store])).toEqual({
        cleared,
      });
    await remember('a.example.com', 'z');
    expect(await valiseJson(['jar', 'clear', '--yes', ...store])).toEqual({ cleared: 1 });
    expect((await valise(['jar', ...store])).stdout).toBe('The jar is empty.\n');
  });
});

describe('valise jar import', () => {
  it('[J-12] takes in what export has printed, says what it refuses, and keeps what is newer', async () => {
    const { port } = await serveExample(['shop']);
    const path = await folder();
    const server = ['--resolve', `shop.example.com:${port}:127.0.0.1`];
    const [from, to] = ['from', 'to'].map((name) => ['--store', `sqlite:${join(path, `${name}.db`)}`]) as [
      string[],
      string[],
    ];
    const call = (tool: string, args: object, store: string[]) =>
      valise([
        'call',
        `http://shop.example.com:${port}/mcp`,
        tool,
        JSON.stringify(args),
        ...server,
        ...store,
      ]);
    await call('remember', { name: 'theme', value: 'dark' }, from);
    const exported = await valiseJson<{ version: 1; entries: Record<string, unknown>[] }>([
      'jar',
      'export',
      ...from,
    ]);
    const file = join(path, 'jar.json');
    const write = (entries: readonly unknown[]) => writeFile(file, JSON.stringify({ version: 1, entries }));
    await write(exported.entries);
    expect(await valise(['jar', 'import', file, ...to])).toEqual({
      code: 0,
      stdout: '1 imported\n',
      stderr: '',
    });
    expect((await call('recall', { name: 'theme' }, to)).stdout).toContain('dark');
    expect((await valiseJson<typeof exported>(['jar', 'export', ...to])).entries[0]).toMatchObject({
      ...exported.entries[0],
      usedAt: expect.any(String),
    });
    const [good] = exported.entries;
    const bad = [
      good,
      null,
      { ...good, key: 7 },
      { ...good, server: '' },
      { ...good, key: 'scope', scope: 'all' },
      { ...good, key: 'session', scope: 'session' },
      { ...good, key: 'none', value: null },
      { ...good, key: 'large', value: 'x'.repeat(9000) },
      { ...good, key: 'over', expiresAt: '2001-01-01T00:00:00Z' },
      { ...good, key: 'times', setAt: 'yesterday' },
      { ...good, key: 'wide', attributes: { serverScope: 'com' } },
      { ...good, key: 'other', attributes: { serverScope: 'evil.example.net' } },
      { ...good, key: 'age', attributes: { maxAge: -1 } },
      { ...good, key: 'fine', attributes: { serverScope: 'example.com' } },
    ];
    await write(bad);
    const ran = await valise(['jar', 'import', file, ...to]);
    expect(ran).toMatchObject({ code: 1, stdout: '1 imported\n' });
    expect(ran.stderr.trim().split('\n')).toHaveLength(bad.length - 1);
    expect(ran.stderr).toContain(
      '"wide" of shop.example.com was refused: shop.example.com may not set its server-scope',
    );
    const { entries } = await valiseJson<typeof exported>(['jar', ...to]);
    expect(entries.map(({ key }) => key)).toEqual(['fine', 'theme']);
    await writeFile(file, '{"secret');
    for (const one of [file, join(path, 'nope.json')]) {
      const { code, stderr } = await valise(['jar', 'import', one, ...to]);
      expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('valise jar export') });
      expect(stderr).not.toContain('secret');
    }
  });
});

describe('valise jar for a server of which nothing is kept', () => {
  it('says so, and does not call the jar empty', async () => {
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    const odd = `stdio:${process.execPath} ${join(import.meta.dirname, 'odd-server.mjs')}`;
    await valise(['call', odd, 'first', ...store]);
    const nothing = 'Nothing is kept for other.example.com; see valise jar.\n';
    for (const [command, code] of [
      [['jar', 'other.example.com'], 0],
      [['jar', 'list', 'other.example.com'], 0],
      [['jar', 'show', 'other.example.com'], 1],
      [['jar', 'clear', 'other.example.com'], 0],
    ] as const)
      expect(await valise([...command, ...store])).toMatchObject({ code, stdout: nothing });
  });

  it('says which key and scope it has not found, where others are kept', async () => {
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    const odd = `stdio:${process.execPath} ${join(import.meta.dirname, 'odd-server.mjs')}`;
    await valise(['call', odd, 'first', ...store]);
    for (const [command, found] of [
      [['clear', odd, '--key', 'NOPE'], `under the key NOPE for ${odd}`],
      [['list', '--key', 'NOPE', '--scope', 'session'], 'under the key NOPE in session scope'],
      [['clear', '--scope', 'session'], 'in session scope'],
    ] as const)
      expect(await valise(['jar', ...command, ...store])).toMatchObject({
        code: 0,
        stdout: `Nothing is kept ${found}; see valise jar.\n`,
      });
    expect(await valiseJson(['jar', 'clear', '--yes', ...store])).toEqual({ cleared: 1 });
    expect((await valise(['jar', 'clear', '--yes', ...store])).stdout).toBe('The jar is empty.\n');
  });

  it('forgets the state of all servers only where it is told to, and asks on a terminal', async () => {
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    const odd = `stdio:${process.execPath} ${join(import.meta.dirname, 'odd-server.mjs')}`;
    await valise(['call', odd, 'first', ...store]);
    for (const more of [[], ['--key', 'NOPE']])
      expect(await valise(['jar', 'clear', ...more, ...store])).toMatchObject({
        code: 1,
        stdout: '',
        stderr: expect.stringContaining('--yes'),
      });
    const kept = async () => (await valiseJson<{ entries: unknown[] }>(['jar', ...store])).entries.length;
    expect(await kept()).toBe(1);
    if (!hasTmux) return;
    const command = [process.execPath, VALISE, 'jar', 'clear', odd, ...store];
    for (const [key, code, left] of [
      ['n', 1, 1],
      ['Escape', 1, 1],
      ['y', 0, 0],
    ] as const) {
      const terminal = await onTerminal(command);
      await terminal.shows(/Forget 1 key of /);
      await terminal.type(key);
      await terminal.shows(new RegExp(`exit code ${code}`));
      expect(await kept()).toBe(left);
    }
  });

  it('finds a server by its command', async () => {
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    const odd = `stdio:${process.execPath} ${join(import.meta.dirname, 'odd-server.mjs')}`;
    await valise(['call', odd, 'first', ...store]);
    const { entries } = await valiseJson<{ entries: unknown[] }>(['jar', 'show', odd, ...store]);
    expect(entries).toHaveLength(1);
    expect(await valiseJson(['jar', 'clear', odd, ...store])).toEqual({ cleared: 1 });
  });
});
