import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import commonjsModule from '@rollup/plugin-commonjs';
import { nodeResolve } from '@rollup/plugin-node-resolve';
import { build as esbuild, transformSync } from 'esbuild';
import { type Plugin, rollup } from 'rollup';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import webpack, { type Stats } from 'webpack';
import { call, withStock, withValise } from './clients.ts';
import { examples, root } from './places.ts';
import { runToEnd, start } from './start.ts';

// Outside of the repository: packages that are not installed here must not be found, as ioredis for a server without Redis.
const project = mkdtempSync(join(tmpdir(), 'valise-bundles-'));
const deployed = mkdtempSync(join(tmpdir(), 'valise-deployed-'));
const entry = join(project, 'node-http.mjs');

beforeAll(async () => {
  writeFileSync(join(project, 'package.json'), '{ "private": true, "type": "module" }');
  for (const name of ['node-http', 'notes']) {
    const { code } = transformSync(readFileSync(`${examples}${name}.ts`, 'utf8'), { loader: 'ts' });
    writeFileSync(join(project, `${name}.mjs`), code.replace('./notes.ts', './notes.mjs'));
  }
  await install(
    `${root}.cache/compat/mcp-valise.tgz`,
    '@modelcontextprotocol/server@2',
    '@modelcontextprotocol/node@2',
  );
});
afterAll(() => {
  for (const folder of [project, deployed]) rmSync(folder, { recursive: true, force: true });
});

async function install(...packages: string[]): Promise<void> {
  const options = ['--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline'];
  await promisify(execFile)('npm', ['install', ...options, ...packages], { cwd: project });
}

type RunWebpack = (done: (error: Error | null, stats: Stats) => void) => void;

// Its types are those of CommonJS.
const commonjs = commonjsModule as unknown as () => Plugin;

/** Each bundles a file into one file or folder, and returns what to run. */
const BUNDLERS: Record<string, (input: string) => Promise<string>> = {
  async 'esbuild, ESM'(input) {
    const outfile = join(deployed, 'esbuild.mjs');
    await esbuild({
      entryPoints: [input],
      outfile,
      bundle: true,
      platform: 'node',
      format: 'esm',
      // What esbuild needs for packages of CommonJS, such as ioredis, in a module.
      banner: {
        js: "import { createRequire as makeRequire } from 'node:module'; const require = makeRequire(import.meta.url);",
      },
      logLevel: 'silent',
    });
    return outfile;
  },
  async 'esbuild, CommonJS'(input) {
    const outfile = join(deployed, 'esbuild.cjs');
    await esbuild({
      entryPoints: [input],
      outfile,
      bundle: true,
      platform: 'node',
      format: 'cjs',
      logLevel: 'silent',
    });
    return outfile;
  },
  async webpack(input) {
    const folder = join(deployed, 'webpack');
    const compiler = webpack({
      entry: input,
      target: 'node',
      mode: 'production',
      optimization: { minimize: false },
      context: project,
      output: { path: folder, filename: 'server.cjs' },
    });
    const stats = await promisify(compiler.run.bind(compiler) as RunWebpack)();
    expect(stats.toJson({ all: false, errors: true }).errors).toEqual([]);
    return join(folder, 'server.cjs');
  },
  async rollup(input) {
    const folder = join(deployed, 'rollup');
    const plugins = [nodeResolve({ exportConditions: ['node'], preferBuiltins: true }), commonjs()];
    const bundle = await rollup({ input, plugins, external: /^node:/, onwarn() {} });
    await bundle.write({ dir: folder, format: 'esm', entryFileNames: 'server.mjs' });
    await bundle.close();
    return join(folder, 'server.mjs');
  },
};

it.each(Object.entries(BUNDLERS))(
  'a server bundled with %s keeps state and asks, without node_modules and without database drivers',
  async (_, bundle) => {
    const server = await start(process.execPath, [await bundle(entry)], { cwd: deployed });
    try {
      const { url } = server;
      expect(await withStock('SDK 2, 2025-11-25', url, (client) => call(client, 'order'))).toBe(
        'ordered size M',
      );
      await withValise(
        'SDK 2, 2026-07-28',
        url,
        async (client) => expect(await call(client, 'visit')).toBe('visit 1'),
        async (client) => expect(await call(client, 'visit')).toBe('visit 2'),
      );
    } finally {
      await server.stop();
    }
  },
);

describe('with ioredis installed', () => {
  const input = join(project, 'redis.mjs');

  beforeAll(async () => {
    await install('ioredis@5');
    writeFileSync(
      input,
      `import { createValise } from 'mcp-valise/server';
      import { openStore } from 'mcp-valise/store';
      const store = 'redis://127.0.0.1:1';
      createValise({ name: 'notes', keys: 'ephemeral', store });
      openStore(store, { timeout: 0.5 })
        .then((opened) => opened.get('key'))
        .then(() => 'nothing', ({ code }) => code)
        .then((code) => { console.log('code:', code); process.exit(); });`,
    );
  });

  // Rollup needs @rollup/plugin-json for ioredis.
  it.each(Object.entries(BUNDLERS).filter(([name]) => name !== 'rollup'))(
    'a server bundled with %s has it inside',
    async (_, bundle) => {
      const said = await runToEnd(process.execPath, [await bundle(input)], deployed);
      expect(said).toContain('code: store-unavailable');
    },
  );
});
