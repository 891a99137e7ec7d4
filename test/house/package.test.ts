import { execFileSync, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { build } from '../../scripts/prepare.mjs';
import { cliManifest, manifest, subpaths } from './manifest.ts';
import { root } from './sources.ts';

// The packages as people get them: packed, unpacked into projects of their own: the library with every peer and with
// none, and the command line with none.
const folder = mkdtempSync(join(tmpdir(), 'valise-package-'));
const bare = join(folder, 'bare');
const full = join(folder, 'full');
const command = join(folder, 'command');

beforeAll(async () => {
  await build();
  const library = pack('mcp-valise');
  project(bare, [library], Object.keys(manifest.dependencies));
  const { 'mcp-valise': _, ...others } = cliManifest.dependencies;
  project(
    command,
    [library, pack('mcp-valise-cli')],
    [...Object.keys(manifest.dependencies), ...Object.keys(others)],
  );
  project(
    full,
    [library],
    [
      ...Object.keys(manifest.dependencies),
      ...Object.keys(manifest.peerDependencies),
      '@types/node',
      '@types/pg',
    ],
  );
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Packed {
  readonly name: string;
  readonly filename: string;
}

function pack(name: string): Packed {
  const args = ['pack', '--workspace', name, '--json', '--ignore-scripts', '--pack-destination', folder];
  const [packed] = JSON.parse(execFileSync('npm', args, { cwd: root, encoding: 'utf8' })) as Packed[];
  return packed!;
}

/** A project that has the packages unpacked and those others linked. */
function project(path: string, packages: readonly Packed[], others: readonly string[]): void {
  for (const { name, filename } of packages) {
    const own = join(path, 'node_modules', name);
    mkdirSync(own, { recursive: true });
    execFileSync('tar', ['-xzf', join(folder, filename), '--strip-components=1', '-C', own]);
  }
  writeFileSync(join(path, 'package.json'), '{ "type": "module" }');
  for (const name of others) {
    const link = join(path, 'node_modules', name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(`${root}node_modules/${name}`, link);
  }
}

function filesIn(path: string): string[] {
  return readdirSync(path, { recursive: true, encoding: 'utf8' }).filter((file) =>
    statSync(join(path, file)).isFile(),
  );
}

describe('the package', () => {
  it('The package contains only the files that are needed to run and to read it', () => {
    const files = filesIn(join(bare, 'node_modules/mcp-valise'));
    expect(files).toEqual(
      expect.arrayContaining([
        'package.json',
        'README.md',
        'LICENSE',
        'CHANGELOG.md',
        'SECURITY.md',
        'bin/valise.js',
      ]),
    );
    const tops = new Set(files.map((file) => file.split('/')[0]));
    expect([...tops].sort()).toEqual(
      [
        'CHANGELOG.md',
        'CONTRIBUTING.md',
        'LICENSE',
        'README.md',
        'SECURITY.md',
        'bin',
        'dist',
        'docs',
        'examples',
        'package.json',
        'spec',
      ].sort(),
    );
    expect(files.filter((file) => file.endsWith('.inputs') || /\.test\b/.test(file))).toEqual([]);
  });

  it('The README of the package links only to files that the package contains', () => {
    const files = filesIn(join(bare, 'node_modules/mcp-valise'));
    const readme = readFileSync(join(bare, 'node_modules/mcp-valise/README.md'), 'utf8');
    const targets = [...readme.matchAll(/\]\((?!https?:)([^)#\s]+)[^)]*\)/g)].map(([, target]) => target);
    expect(targets).toContain('examples/README.md');
    expect(targets.filter((target) => !files.includes(target as string))).toEqual([]);
  });

  it('The README of the package starts with its origin and how to install it', () => {
    expect(manifest).toMatchObject({
      repository: { url: 'git+https://github.com/mcp-valise/mcp-valise.git' },
      homepage: expect.stringContaining('https://github.com/mcp-valise/mcp-valise'),
      bugs: expect.stringContaining('https://github.com/mcp-valise/mcp-valise'),
    });
    const readme = readFileSync(join(bare, 'node_modules/mcp-valise/README.md'), 'utf8');
    expect(readme.indexOf('npm install mcp-valise')).toBeLessThan(readme.indexOf('## '));
    expect(readme).toContain('npm install mcp-valise');
  });

  it('The package depends on no package that only its examples use', () => {
    expect(Object.keys(manifest.peerDependencies)).not.toContain('zod');
    expect(Object.keys(manifest.peerDependencies)).not.toContain('oidc-provider');
  });

  it.each([
    ['mcp-valise', bare],
    ['mcp-valise-cli', command],
  ])('The file %s names no missing source map', (name, path) => {
    const dist = join(path, 'node_modules', name, 'dist');
    const files = filesIn(dist);
    for (const file of files.filter((name) => /\.(js|d\.ts)$/.test(name))) {
      const [, map] = /\/\/# sourceMappingURL=(.+)\s*$/.exec(readFileSync(join(dist, file), 'utf8')) ?? [];
      if (map) expect(files, file).toContain(join(dirname(file), map));
    }
  });

  it('The examples import the package by its name', () => {
    const dist = join(command, 'node_modules/mcp-valise-cli/dist/examples');
    const built = readdirSync(dist)
      .filter((file) => file.endsWith('.js'))
      .map((file) => readFileSync(join(dist, file), 'utf8'));
    expect(built.filter((text) => /from "mcp-valise\//.test(text))).not.toEqual([]);
    expect(built.filter((text) => /"\.\.\/(client|server|seal|store|wire)\//.test(text))).toEqual([]);
  });

  // `mcp-valise/otel` is for those who have its peer.
  it.each(subpaths.map(({ specifier }) => specifier).filter((specifier) => specifier !== 'mcp-valise/otel'))(
    'The subpath %s loads if no optional peer is installed',
    (specifier) => {
      const script = `const names = Object.keys(await import('${specifier}')); if (names.length === 0 || names.includes('default')) throw new Error(String(names));`;
      execFileSync(process.execPath, ['--input-type=module', '--eval', script], { cwd: bare, stdio: 'pipe' });
    },
  );

  it('Every subpath has types that a strict project can use', { timeout: 120_000 }, () => {
    const imports = subpaths.map(({ specifier }, index) => `import * as m${index} from '${specifier}';`);
    const uses = subpaths.map((_, index) => `m${index}`).join(', ');
    writeFileSync(join(full, 'use.ts'), `${imports.join('\n')}\nexport const all = [${uses}];\n`);
    const options = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--skipLibCheck', 'false'];
    const modules = ['--module', 'nodenext', '--target', 'es2022', '--types', 'node'];
    const output = tsc([...options, ...modules, 'use.ts']);
    // What the peers' own declarations get wrong is not ours to judge.
    expect(output.split('\n').filter((line) => /mcp-valise|^use\.ts/.test(line))).toEqual([]);
  });
});

describe('the package of the command line', () => {
  const own = join(command, 'node_modules/mcp-valise-cli');
  const run = (path: string, ...args: string[]) =>
    spawnSync(process.execPath, [path, ...args], { cwd: command, encoding: 'utf8' });

  it('The package contains only its launcher and the files that it runs', () => {
    const tops = new Set(filesIn(own).map((file) => file.split('/')[0]));
    expect([...tops].sort()).toEqual(['LICENSE', 'README.md', 'bin', 'dist', 'package.json']);
  });

  it.each(['mcp-valise-cli', 'mcp-valise'])(
    'The package runs as `valise` of %s, with no optional peer installed',
    (name) => {
      const { stdout, stderr } = run(
        join(command, 'node_modules', name, 'bin/valise.js'),
        'keys',
        'generate',
      );
      expect(stderr).toBe('');
      expect(stdout).toMatch(/\S{40,}/);
    },
  );

  it('The `valise` command of the library names the package if it is not installed', () => {
    const { status, stdout, stderr } = run(
      join(bare, 'node_modules/mcp-valise/bin/valise.js'),
      'keys',
      'new',
    );
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
    expect(stderr).toBe(
      'valise: This command is in the package mcp-valise-cli, which is not installed here. Run `npx mcp-valise-cli`, or install it: npm install mcp-valise-cli\n',
    );
  });

  it('The command says what to do if its files are missing', () => {
    const broken = join(folder, 'broken/bin');
    mkdirSync(broken, { recursive: true });
    copyFileSync(join(own, 'bin/valise.js'), join(broken, 'valise.mjs'));
    expect(run(join(broken, 'valise.mjs'))).toMatchObject({
      status: 1,
      stderr: 'valise: dist/main.js is missing from this installation. Install mcp-valise-cli again.\n',
    });
  });
});

function tsc(args: readonly string[]): string {
  try {
    return execFileSync(process.execPath, [`${root}node_modules/typescript/bin/tsc`, ...args], {
      cwd: full,
      encoding: 'utf8',
    });
  } catch (error) {
    return (error as { stdout: string }).stdout;
  }
}
