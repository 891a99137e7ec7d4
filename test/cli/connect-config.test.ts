import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { valise } from './valise.ts';

const URL = 'https://shop.example.com/mcp';

interface Config {
  readonly mcpServers: Record<string, { readonly args: readonly string[] }>;
}

async function config(args: readonly string[], env: Record<string, string> = {}) {
  const ran = await valise(['connect', '--print-config', 'claude', ...args], env);
  const [[name, server]] = Object.entries((JSON.parse(ran.stdout) as Config).mcpServers) as [
    [string, { args: string[] }],
  ];
  const { args: given } = server;
  const at = given.indexOf('connect');
  return { name, packages: given.slice(0, at), args: given.slice(at + 1), stderr: ran.stderr };
}

describe('valise connect --print-config', () => {
  it('hands on every option', async () => {
    const options = [
      ...['--store', 'redis://127.0.0.1:6379'],
      ...['--principal', 'ada'],
      ...['--resolve', 'shop.example.com:443:127.0.0.1:8443'],
      ...['--resolve', 'shop.example.com:80:[::1]:8080'],
      '--allow-local',
      ...['--era', 'modern'],
      '--insecure-plaintext',
      ...['--session', 'diary'],
      ...['--header', 'X-Tenant: acme'],
    ];
    expect(await config([URL, ...options])).toMatchObject({
      name: 'shop.example.com',
      args: [URL, ...options],
      stderr: '',
    });
  });

  it.each([
    ['', 'better-sqlite3@12'],
    ['sqlite:/var/kept.db', 'better-sqlite3@12'],
    ['redis://127.0.0.1:6379', 'ioredis'],
    ['postgres://127.0.0.1:5432/state', 'pg'],
    ['file:/var/kept.json', undefined],
  ])('has npx bring along what the bridge needs: store "%s"', async (store, driver) => {
    const { packages } = await config([URL, ...(store ? ['--store', store] : [])]);
    const names = [
      'mcp-valise-cli',
      '@modelcontextprotocol/client@2',
      '@napi-rs/keyring@2',
      ...(driver ? [driver] : []),
    ];
    expect(packages).toEqual(['-y', ...names.flatMap((name) => ['-p', name]), 'valise']);
  });

  it.each(['file', 'sqlite'])('names a %s: store so that it is found from every folder', async (scheme) => {
    const { args } = await config([URL, '--store', `${scheme}:state/kept`]);
    expect(args).toEqual([URL, '--store', `${scheme}:${join(process.cwd(), 'state/kept')}`]);
    for (const url of [`${scheme}:~/kept`, `${scheme}:/var/kept`, `${scheme}:///var/kept`])
      expect((await config([URL, '--store', url])).args).toEqual([URL, '--store', url]);
  });

  it('says which variables the host must have as well', async () => {
    const env = { VALISE_CLIENT_KEYS: 'secret', VALISE_KEYS: 'other', VALISE_STORE: 'file:x' };
    const { stderr } = await config([URL], env);
    expect(stderr).toMatch(/VALISE_CLIENT_KEYS is set here.*"env"/);
    expect(stderr).not.toContain('VALISE_KEYS');
    expect(stderr).toMatch(/VALISE_STORE is set here.*"env"/);
    expect(stderr).not.toContain('secret');
    expect((await config([URL, '--store', 'memory:'], env)).stderr).not.toContain('VALISE_STORE');
  });

  it('says that the host must be able to read the key file', async () => {
    const { args, stderr } = await config([URL, '--key-file', 'kept.env']);
    expect(args).toEqual([URL, '--key-file', join(process.cwd(), 'kept.env')]);
    expect(stderr).toContain(`the host must be able to read ${join(process.cwd(), 'kept.env')}`);
  });

  it('takes a variable that is empty for one that is not set', async () => {
    const { packages, args, stderr } = await config([URL], { VALISE_CLIENT_KEYS: '', VALISE_STORE: '' });
    expect(packages).toContain('better-sqlite3@12');
    expect({ args, stderr }).toEqual({ args: [URL], stderr: '' });
  });

  it.each(['bogus:x', 'nothing', 'sqlite:', ''])('refuses the store "%s"', async (store) => {
    for (const [args, env] of [
      [['--store', store], {}],
      ...(store === '' ? [] : [[[], { VALISE_STORE: store }] as const]),
    ] as const)
      expect(await valise(['connect', '--print-config', 'claude', URL, ...args], env)).toMatchObject({
        code: 2,
        stdout: '',
        stderr: expect.stringMatching(/Use memory:|Write it like/),
      });
  });

  it('warns of a secret in the file', async () => {
    const { args, stderr } = await config([URL, '-H', 'Authorization: Bearer abc']);
    expect(args).toContain('Authorization: Bearer abc');
    expect(stderr).toMatch(/the header Authorization is in the configuration/);
    expect(stderr).not.toContain('abc');
  });

  it('warns of a password in the URL of the store, and of a query in that of the server', async () => {
    const store = ['--store', 'redis://user:verysecret@127.0.0.1:6379'];
    const { stderr } = await config([`${URL}?api_key=s3cret`, ...store]);
    expect(stderr).toMatch(/the password of the store is in the configuration/);
    expect(stderr).toMatch(/the query of the URL is in the configuration/);
    expect(stderr).not.toMatch(/verysecret|s3cret/);
  });

  it('writes the entry as each host has it', async () => {
    const print = async (host: string, ...more: string[]) =>
      (await valise(['connect', '--print-config', host, URL, '--store', 'memory:', ...more])).stdout;
    const { command, args } = (JSON.parse(await print('claude')) as Config).mcpServers[
      'shop.example.com'
    ] as { command: string; args: string[] };
    const server = { command, args };
    for (const host of ['cursor', 'windsurf'])
      expect(JSON.parse(await print(host))).toEqual({ mcpServers: { 'shop.example.com': server } });
    expect(JSON.parse(await print('vscode'))).toEqual({
      servers: { 'shop.example.com': { type: 'stdio', ...server } },
    });
    expect(JSON.parse(await print('zed'))).toEqual({ context_servers: { 'shop.example.com': server } });
    expect(JSON.parse(await print('opencode'))).toEqual({
      mcp: { 'shop.example.com': { type: 'local', command: [command, ...args], enabled: true } },
    });
    expect(await print('codex')).toBe(
      `[mcp_servers.shop-example-com]\ncommand = "npx"\nargs = [${args.map((arg) => JSON.stringify(arg)).join(', ')}]\n`,
    );
  });

  it.each([
    ["stdio:'/opt/my tools/server' --fast", 'server'],
    ['stdio:npx -y thing', 'npx'],
    ['http://[::1]:3000/mcp', '1-3000'],
    ['http://127.0.0.1:4101/mcp', '127.0.0.1-4101'],
    ['http://127.0.0.1:4102/mcp', '127.0.0.1-4102'],
    ["stdio:'%%'", 'server'],
  ])('names %s "%s"', async (target, name) => {
    expect((await config([target])).name).toBe(name);
  });

  it.each(['notaurl', 'stdio:', 'ftp://example.com'])('refuses %s with a next step', async (target) => {
    expect(await valise(['connect', '--print-config', 'claude', target])).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(/Give an http\(s\) URL|Write for example/),
    });
  });

  it.each(['--json', '--sdk=v1'])('does not take %s, which would change nothing', async (option) => {
    const { code, stderr } = await valise(['connect', URL, option]);
    expect(code).toBe(2);
    expect(stderr).toContain('unknown option');
    expect((await valise(['connect', '--help'])).stdout).not.toContain(option.split('=')[0]);
  });
});
