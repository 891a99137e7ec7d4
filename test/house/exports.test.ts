import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { cliManifest, manifest, subpaths } from './manifest.ts';
import { allSources, root } from './sources.ts';

const sources = allSources().map(({ path }) => path);

describe('the public subpaths', () => {
  it('The public subpaths are the promised ones', () => {
    expect(subpaths.map(({ specifier }) => specifier).sort()).toEqual([
      'mcp-valise/adapters',
      'mcp-valise/client',
      'mcp-valise/internal',
      'mcp-valise/otel',
      'mcp-valise/seal',
      'mcp-valise/server',
      'mcp-valise/store',
      'mcp-valise/store/durable-object',
      'mcp-valise/store/postgres',
      'mcp-valise/store/redis',
      'mcp-valise/store/sqlite',
      'mcp-valise/store/upstash',
      'mcp-valise/store/workers-kv',
      'mcp-valise/testing',
      'mcp-valise/wire',
    ]);
  });

  it.each(subpaths.map((subpath) => [subpath.specifier, subpath] as const))(
    'The subpath %s is one file with types',
    (_, subpath) => {
      const base = `./dist/${subpath.source.replace(/\.ts$/, '')}`;
      expect(subpath.target).toEqual({ types: `${base}.d.ts`, default: `${base}.js` });
      // `types` must come first: conditions are tried in order.
      expect(Object.keys(subpath.target)).toEqual(['types', 'default']);
      expect(sources).toContain(subpath.source);
    },
  );

  it('The public subpaths cover every index.ts of a folder', () => {
    // Of the wire, only the names and the vectors are public; its index.ts is for the other folders.
    const indexes = sources.filter((path) => path.endsWith('/index.ts') && path !== 'wire/index.ts');
    const exported = subpaths.map(({ source }) => source);
    expect(indexes.filter((path) => !exported.includes(path))).toEqual([]);
  });

  it('The compiler resolves the public subpaths to the sources instead of dist', () => {
    const { compilerOptions } = JSON.parse(readFileSync(`${root}tsconfig.json`, 'utf8')) as {
      compilerOptions: { paths: Record<string, string[]> };
    };
    const expected = subpaths.map(({ specifier, source }) => [specifier, [`./src/${source}`]]);
    expect(compilerOptions.paths).toEqual(Object.fromEntries(expected));
  });

  it.each(subpaths.map(({ specifier, source }) => [specifier, source]))(
    'The tests resolve %s to the sources too',
    async (specifier, source) => {
      const byName: unknown = await import(/* @vite-ignore */ specifier as string);
      const byPath: unknown = await import(/* @vite-ignore */ `${root}src/${source}`);
      expect(byName).toBe(byPath);
    },
  );
});

describe('package.json', () => {
  it('package.json describes an ESM package without side effects, for Node 20 and later, under Apache-2.0', () => {
    expect(manifest).toMatchObject({
      name: 'mcp-valise',
      type: 'module',
      sideEffects: false,
      license: 'Apache-2.0',
      engines: { node: '>=20' },
      bin: { valise: './bin/valise.js' },
    });
    expect(readFileSync(`${root}LICENSE`, 'utf8')).toMatch(
      /^\s*Apache License\n\s*Version 2\.0, January 2004\n/,
    );
    expect(existsSync(`${root}bin/valise.js`)).toBe(true);
  });

  it('package.json depends only on tldts', () => {
    expect(Object.keys(manifest.dependencies)).toEqual(['tldts']);
  });

  it('The package.json of the command line has the version of the library, depends on exactly that version, and has the same peers', () => {
    const { version, engines, license, type, peerDependencies, peerDependenciesMeta } = manifest;
    const same = { version, engines, license, type, peerDependencies, peerDependenciesMeta };
    expect(cliManifest).toMatchObject({
      ...same,
      name: 'mcp-valise-cli',
      bin: { valise: './bin/valise.js' },
    });
    expect(cliManifest.dependencies['mcp-valise']).toBe(version);
    expect(readFileSync(`${root}cli/LICENSE`, 'utf8')).toBe(readFileSync(`${root}LICENSE`, 'utf8'));
  });

  it('package.json makes both SDK majors and the library of every driver an optional peer, and installs it for development', () => {
    const peers = Object.keys(manifest.peerDependencies);
    expect(peers).toEqual(
      expect.arrayContaining([
        '@modelcontextprotocol/sdk',
        '@modelcontextprotocol/client',
        '@modelcontextprotocol/server',
        '@modelcontextprotocol/node',
        'better-sqlite3',
        'ioredis',
        'pg',
        '@napi-rs/keyring',
      ]),
    );
    for (const peer of peers) {
      expect(manifest.peerDependenciesMeta[peer], peer).toEqual({ optional: true });
      expect(manifest.devDependencies, peer).toHaveProperty([peer]);
      expect(manifest.dependencies, peer).not.toHaveProperty([peer]);
    }
  });
});
