import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Identity,
  type IdentityOptions,
  identify,
  isIdentity,
} from '../../src/client/identity/identity.ts';
import { targetOf } from '../../src/client/identity/target.ts';

const http = (url: string, options?: IdentityOptions) =>
  identify({ kind: 'http', url: new URL(url) }, options);

describe('the name of an HTTP server', () => {
  it.each([
    ['https://www.example.com/mcp', 'www.example.com'],
    ['http://www.example.com:8080/other?x=1', 'www.example.com'],
    ['https://WWW.Example.COM', 'www.example.com'],
    ['https://www.example.com./mcp', 'www.example.com'],
    ['https://user:secret@www.example.com/', 'www.example.com'],
    ['https://bücher.example.com', 'xn--bcher-kva.example.com'],
    ['https://xn--bcher-kva.example.com', 'xn--bcher-kva.example.com'],
    ['https://shop.example.co.uk', 'shop.example.co.uk'],
    ['https://tenant.github.io', 'tenant.github.io'],
    ['https://a_b.example.com', 'a_b.example.com'],
    ['wss://www.example.com', 'www.example.com'],
  ])('[J-14] The name of the HTTP server %s is %s', (url, name) => {
    expect(http(url)).toMatchObject({ name, local: false, passing: false });
  });

  it('[J-15] Sibling, parent and child domains have different server names', () => {
    const names = [
      'https://www.example.com',
      'https://other.example.com',
      'https://example.com',
      'https://a.www.example.com',
    ].map((url) => http(url).name);
    expect(new Set(names).size).toBe(4);
  });

  it.each([
    'http://127.0.0.1',
    'http://127.1',
    'http://2130706433',
    'http://0x7f000001',
    'http://0177.0.0.1',
    'http://127.0.0.1.',
    'http://１２７.０.０.１',
    'http://10.0.0.7:8080',
    'http://8.8.8.8',
    'http://[::1]',
    'http://[::ffff:127.0.0.1]',
    'http://[2001:db8::1]',
    'http://localhost',
    'http://LOCALHOST.:3000',
    'http://app.localhost',
    'http://a.b.localhost.',
    'http://intranet',
    'http://com',
    'https://co.uk',
    'https://github.io',
    'https://a.ck',
    'https://s3.amazonaws.com',
    'http://printer.local',
    'http://db.internal',
    'http://shop.test',
    'http://shop.example',
    'http://shop.invalid',
    'http://nas.home.arpaa',
    'http://a..example.com',
    'http://example.com..',
    `http://${'a'.repeat(64)}.example.com`,
    'custom://www.example.com',
  ])('[J-16] No state is stored for %s', (url) => {
    const one = http(url);
    expect(isIdentity(one)).toBe(false);
    expect(one).toMatchObject({ refused: expect.stringMatching(/\.$/) });
  });

  it('[J-16] No spelling of an IP address gets state', () => {
    const spell = (part: number, how: number) =>
      how === 0 ? String(part) : how === 1 ? `0x${part.toString(16)}` : `0${part.toString(8)}`;
    const part = fc.tuple(fc.integer({ min: 0, max: 255 }), fc.integer({ min: 0, max: 2 }));
    fc.assert(
      fc.property(
        fc.tuple(part, part, part, part),
        fc.integer({ min: 1, max: 4 }),
        fc.constantFrom('', '.'),
        (parts, count, dot) => {
          // The last part of a short spelling stands for all the bytes that are left.
          const bytes = parts.map(([byte]) => byte);
          const head = parts.slice(0, count - 1).map(([byte, how]) => spell(byte, how));
          const rest = bytes.slice(count - 1).reduce((sum, byte) => sum * 256 + byte, 0);
          const host = [...head, spell(rest, (parts[count - 1] as [number, number])[1])].join('.') + dot;
          expect(isIdentity(http(`http://${host}/`))).toBe(false);
        },
      ),
    );
    fc.assert(
      fc.property(fc.ipV6(), (address) => {
        expect(isIdentity(http(`http://[${address}]/`))).toBe(false);
      }),
    );
  });

  it('[J-16] allowLocal allows state for local servers, under the same names', () => {
    const local = (url: string) => http(url, { allowLocal: true });
    expect(local('http://127.1:3000/mcp')).toMatchObject({ name: '127.0.0.1', local: true, passing: false });
    expect(local('http://[::1]:3000')).toMatchObject({ name: '[::1]', local: true });
    expect(local('http://localhost.:3000')).toMatchObject({ name: 'localhost', local: true });
    expect(local('http://db.internal')).toMatchObject({ name: 'db.internal', local: true });
    expect(local('https://www.example.com')).toMatchObject({ local: false });
  });

  it('[J-20] A server scope is at most as wide as the registrable domain', () => {
    expect((http('https://a.b.example.co.uk') as Identity).scopes).toEqual([
      'a.b.example.co.uk',
      'b.example.co.uk',
      'example.co.uk',
    ]);
    expect((http('https://x.tenant.github.io') as Identity).scopes).toEqual([
      'x.tenant.github.io',
      'tenant.github.io',
    ]);
    expect((http('http://127.0.0.1', { allowLocal: true }) as Identity).scopes).toEqual(['127.0.0.1']);
  });

  it('Any host name yields a server name without an error', () => {
    fc.assert(
      fc.property(fc.webUrl(), (url) => {
        const one = http(url);
        if (!isIdentity(one)) return;
        expect(one.scopes[0]).toBe(one.name);
        expect(one.scopes.at(-1)).toBe(one.site);
        expect(one.name).toBe(one.name.toLowerCase());
        expect(one.name.endsWith('.')).toBe(false);
      }),
    );
  });
});

describe('the name of a stdio server', () => {
  let folder: string;
  beforeAll(() => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), 'valise-identity-')));
    mkdirSync(join(folder, 'pkg', 'dist'), { recursive: true });
    writeFileSync(join(folder, 'pkg', 'package.json'), '{"name":"@shop/server","version":"1.2.3"}');
    writeFileSync(join(folder, 'pkg', 'dist', 'package.json'), '{"type":"module"}');
    writeFileSync(join(folder, 'pkg', 'dist', 'index.js'), '// one');
    writeFileSync(join(folder, 'server.py'), '# one');
    writeFileSync(join(folder, 'tool'), '#!/bin/sh\n', { mode: 0o755 });
    writeFileSync(join(folder, 'odd#name%.py'), '# odd');
    writeFileSync(join(folder, '.env'), 'X=1');
    for (const name of ['a', 'b'])
      for (const ending of ['mjs', 'pl', 'php', 'py', 'rb', 'ts'])
        writeFileSync(join(folder, `${name}.${ending}`), '// one of two');
    mkdirSync(join(folder, 'lib'));
    writeFileSync(join(folder, 'map.json'), '{}');
    symlinkSync(process.execPath, join(folder, 'node22'));
    symlinkSync(process.execPath, join(folder, 'runtime'));
    symlinkSync(join(folder, 'server.py'), join(folder, 'link.py'));
    symlinkSync(join(folder, 'pkg', 'dist', 'index.js'), join(folder, 'shop-server'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const stdio = (command: string, args: readonly string[] = [], options?: IdentityOptions, cwd = folder) =>
    identify({ kind: 'stdio', command, args, cwd }, options).name;

  it('[J-17] The name of a stdio server is the absolute path of its script, with links resolved', () => {
    const name = join(folder, 'server.py');
    expect(stdio('python3', [name])).toBe(name);
    expect(stdio('python3', ['server.py', '--port', '1'])).toBe(name);
    expect(stdio('python3', ['server.py', '--verbose'])).toBe(name);
    expect(stdio('/usr/bin/python3.11', ['-u', './server.py'])).toBe(name);
    expect(stdio('python3', ['link.py'])).toBe(name);
    expect(stdio('python3', ['../server.py'], {}, join(folder, 'pkg'))).toBe(name);
  });

  it('[J-13] The name of a stdio server has a digest of arguments that may choose another program, and of the whole command if options do', () => {
    expect(stdio('python3', ['server.py', 'node'])).toMatch(/\/server\.py \+[\w-]{16}$/);
    for (const options of [['--env-file', '.env'], ['--env-file=.env'], ['--import', 'tsx']])
      expect(stdio('node', [...options, 'a.mjs'])).toMatch(/^node [\w.]+ \+[\w-]{16}$/);
    expect(stdio('sh', ['-c', 'tool'])).toMatch(/^sh tool \+/);
  });

  it('[J-17] The name of a stdio server is the path of the program if the command names no interpreter', () => {
    expect(stdio('./tool', ['serve'])).toBe(join(folder, 'tool'));
    expect(stdio(process.execPath.replace(/node$/, 'node'), ['-e', '1'])).not.toContain(folder);
  });

  it('[J-26] The name of a stdio server has the name and version of its package', () => {
    const name = `${join(folder, 'pkg', 'dist', 'index.js')}#@shop/server@1.2.3`;
    expect(stdio('node', ['pkg/dist/index.js'])).toBe(name);
    expect(stdio('./shop-server')).toBe(name);
    expect(stdio('python3', ['server.py'])).not.toContain('#');
  });

  it('[J-26] With digest, the name of a stdio server has a digest, so that a swapped program starts empty', () => {
    const path = join(folder, 'swapped.py');
    writeFileSync(path, '# first');
    const first = stdio('python3', [path], { digest: true });
    expect(first).toMatch(/#sha256-/);
    expect(stdio('python3', [path], { digest: true })).toBe(first);
    writeFileSync(path, '# second');
    expect(stdio('python3', [path], { digest: true })).not.toBe(first);
    expect(stdio('python3', [path])).toBe(path);
  });

  it('[J-13] Servers that one launcher starts have different names, which show no arguments', () => {
    const a = stdio('npx', ['-y', '@shop/a', '--key=hunter2']);
    const b = stdio('npx', ['-y', '@shop/b', '--key=hunter2']);
    expect(a).not.toBe(b);
    expect(a).toMatch(/^npx @shop\/a \+/);
    expect(`${a}${b}`).not.toContain('hunter2');
    expect(stdio('npx', ['-y', '@shop/a', '--key=hunter2'], {}, tmpdir())).toBe(a);
    expect(stdio('docker', ['run', '-e', 'KEY=hunter2', 'img'])).not.toContain('hunter2');
    expect(stdio('python3', ['-m', 'one'])).not.toBe(stdio('python3', ['-m', 'two']));
    expect(stdio('sh', ['-c', './tool'])).not.toBe(stdio('sh', ['-c', './tool'], {}, tmpdir()));
  });

  it('[J-13] Servers behind one bridge have different names, without the secrets in the address', () => {
    const bridge = (url: string) => stdio('python3', ['server.py', url]);
    expect(bridge('https://a.example.com/mcp')).not.toBe(bridge('https://b.example.com/mcp'));
    expect(bridge('https://me:hunter2@a.example.com/mcp?token=hunter2')).toBe(
      `${join(folder, 'server.py')} a.example.com`,
    );
  });

  it.each([
    ['perl', '-I', 'lib', '@.pl'],
    ['perl', '-W', '@.pl', 'map.json'],
    ['perl5.36.0', '@.pl'],
    ['ruby', '-I', 'lib', '@.rb'],
    ['php8.2', '@.php'],
    ['./node22', '@.mjs'],
    ['./runtime', '@.mjs'],
    ['stdbuf', '-oL', 'node', '@.mjs'],
    ['setsid', '-w', 'node', '@.mjs'],
    ['mcp', 'run', '@.py'],
    ['./tool', 'run', '@.py'],
    ['./tool', '--run=@.py'],
    ['./tool', 'exec node @.mjs'],
    ['./tool', 'python3', '-m', '@'],
    ['sh', 'tool', '@.mjs'],
    ['node', 'pkg/dist/index.js', '@.mjs'],
    ['node', '--watch-path', 'lib', '@.mjs'],
    ['node', '--import=./@.mjs', 'map.json'],
    ['node', '--import', './@.mjs', 'map.json'],
    ['node', '--eval=import("./@.mjs")', 'map.json'],
    ['node', '--test-reporter', 'map.json', '@.mjs'],
    ['node', '/nowhere/npm/bin/npx-cli.js', 'node', '@.mjs'],
    ['deno', 'run', '--import-map', 'map.json', '@.ts'],
    ['/some/.venv/bin/python', '-m', '@'],
    ['/some/@/bin/python', '-m', 'server'],
    ['env', 'node', '@.mjs'],
  ])('[J-13] [J-17] The command %s %s %s %s names another server for another program', (...words) => {
    const [a, b] = ['a', 'b'].map((name) => {
      const [command = '', ...args] = words.map((word) => word.replace('@', name));
      return stdio(command, args);
    });
    expect(a).not.toBe(b);
  });

  it('[J-13] Programs that one launcher script runs have different names, though no argument is a file', () => {
    mkdirSync(join(folder, 'npm', 'bin'), { recursive: true });
    writeFileSync(join(folder, 'npm', 'package.json'), '{"name":"npm","version":"10.0.0"}');
    for (const script of ['npx-cli.js', 'other.js']) {
      writeFileSync(join(folder, 'npm', 'bin', script), '// runs others');
      const run = (name: string) => stdio('node', [`npm/bin/${script}`, '-y', name]);
      expect(run('@shop/a')).not.toBe(run('@shop/b'));
      expect(run('@shop/a')).toContain(`${script}#npm@10.0.0 +`);
    }
  });

  it('[J-13] Programs that a launcher finds in two folders have different names', () => {
    mkdirSync(join(folder, 'other'), { recursive: true });
    for (const at of [folder, join(folder, 'other')]) writeFileSync(join(at, 'near.ts'), '// near');
    const run = (cwd: string) => stdio('npx', ['tsx', 'near.ts'], {}, cwd);
    expect(run(folder)).not.toBe(run(join(folder, 'other')));
  });

  it('[J-17] The name of a stdio server is never a folder', () => {
    expect(stdio('node', ['pkg'])).toMatch(/^node pkg \+/);
    expect(stdio('./pkg')).toMatch(/^pkg \+/);
  });

  it('[J-17] Flags before and after the script do not change the name of a stdio server', () => {
    const name = join(folder, 'a.mjs');
    expect(stdio('node', ['a.mjs', '--verbose', 'stdio-words'])).toBe(name);
    expect(stdio('node', ['--enable-source-maps', 'a.mjs', '--verbose'])).toBe(name);
    expect(stdio('./node22', ['--no-warnings', 'a.mjs'])).toBe(name);
    expect(stdio('python3', ['-u', '-B', 'server.py'])).toBe(join(folder, 'server.py'));
  });

  it('No path equals another path with a package', () => {
    expect(stdio('python3', ['odd#name%.py'])).toBe(join(folder, 'odd%23name%25.py'));
  });

  it('[J-20] A stdio server gets no server scope', () => {
    expect(identify({ kind: 'stdio', command: 'x', args: [], cwd: folder })).toMatchObject({ scopes: [] });
  });

  it('Any command yields a name without an error, and two programs never share one', () => {
    const word = fc.oneof(
      fc.string(),
      fc.constantFrom('node', 'npx', '-e', '-c', 'run', 'server.py', '--', '.'),
    );
    fc.assert(
      fc.property(word, fc.array(word, { maxLength: 4 }), (command, args) => {
        expect(typeof stdio(command, args)).toBe('string');
      }),
    );
  });
});

describe('a server in this process', () => {
  it('[J-13] A server in this process has no name, so no state is stored for it', () => {
    const target = targetOf({ start: async () => {}, send: async () => {}, close: async () => {} });
    expect(isIdentity(identify(target))).toBe(false);
    const one = identify(target, { allowLocal: true });
    const other = identify(target, { allowLocal: true });
    expect(one).toMatchObject({ local: true, passing: true });
    expect(one.name).not.toBe(other.name);
  });
});
