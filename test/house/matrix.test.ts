import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { generateKey } from 'mcp-valise/seal';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { build } from '../../scripts/prepare.mjs';
import { service } from '../services.ts';
import { root } from './sources.ts';

const run = promisify(execFile);
const redis = await service('redis');
const folder = mkdtempSync(join(tmpdir(), 'valise-matrix-'));

/** Every SDK that the package says it works with, at both ends of its range. */
const SDKS = [
  // The client of 1.20 does not come back for a stream that broke, so the host of both has the newest one.
  ...['1.20.0', '1'].map((version) => ({
    name: `sdk ${version === '1' ? 'latest' : '1.20'}`,
    major: 'v1',
    packages: [`@modelcontextprotocol/sdk@${version}`, 'host-sdk@npm:@modelcontextprotocol/sdk@1'],
  })),
  ...['2.0.0', '2'].map((version) => ({
    name: `server ${version === '2' ? 'latest' : '2.0'}`,
    major: 'v2',
    packages: ['server', 'client', 'node'].map((part) => `@modelcontextprotocol/${part}@${version}`),
  })),
];
const CELLS = SDKS.flatMap((sdk) => ['3', '4'].map((zod) => ({ ...sdk, zod })));

let tarballs: string[];

beforeAll(async () => {
  await build();
  const args = ['pack', '--workspaces', '--json', '--ignore-scripts', '--pack-destination', folder];
  const { stdout } = await run('npm', args, { cwd: root });
  tarballs = (JSON.parse(stdout) as { filename: string }[]).map(({ filename }) => join(folder, filename));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Installs both packages beside others into an empty project, with the programs that the tests run there. */
async function install(name: string, packages: readonly string[]): Promise<string> {
  const cell = join(folder, name.replaceAll(' ', '-'));
  mkdirSync(cell);
  writeFileSync(join(cell, 'package.json'), '{ "type": "module", "private": true }');
  for (const file of ['server.mjs', 'drive.mjs', 'mcp-handler.mjs'])
    copyFileSync(join(root, 'test/house/matrix', file), join(cell, file));
  // npm, and not links: what it refuses to install side by side is what a new user meets first.
  const options = ['--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline'];
  await run('npm', ['install', ...options, ...tarballs, ...packages], { cwd: cell });
  return cell;
}

describe.skipIf(!redis)('the package, installed by npm into an empty project', () => {
  it.each(CELLS)(
    'The package next to $name and zod $zod finishes a call whose instance is killed while it asks',
    async ({ name, zod, major, packages }) => {
      const cell = await install(`${name} zod ${zod}`, ['ioredis', `zod@${zod}`, ...packages]);
      const env = { ...process.env, VALISE_KEYS: generateKey(), MATRIX_STORE: redis };
      const calls = ['stock', 'valise'].map((client) =>
        run(process.execPath, ['drive.mjs', major, client], { cwd: cell, env, timeout: 60_000 }),
      );
      for (const { stdout } of await Promise.all(calls)) expect(stdout).toBe('ordered 1 of size M\n');
    },
  );

  it('The command that npm links for the two packages runs', async () => {
    const cell = await install('command', []);
    const { stdout } = await run('npx', ['--no-install', 'valise', '--version'], { cwd: cell });
    expect(stdout).toMatch(/^\d+\.\d+\.\d+/);
  });

  it("The package wraps Vercel's mcp-handler unchanged", async () => {
    const cell = await install('mcp-handler', ['mcp-handler@2', '@modelcontextprotocol/server@2', 'zod@3']);
    const { stdout } = await run(process.execPath, ['mcp-handler.mjs'], { cwd: cell, timeout: 60_000 });
    expect(stdout).toBe('visit 1\nvisit 2\n');
  });
});
