import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { root } from './sources.ts';

// The commands on a fresh clone, with an empty home. The long form (`npm run test:soak`, and CI) also installs everything
// anew, with no cache at all, which takes minutes; the short form borrows the packages that are here.
const isLong = process.env['VALISE_SOAK'] === '1' || process.env['CI'] === 'true';
const folder = mkdtempSync(join(tmpdir(), 'valise-clone-'));
const clone = join(folder, 'clone');
const home = join(folder, 'home');
const MINUTES = 60_000;

function inClone(command: string, ...args: string[]) {
  const env = { PATH: process.env['PATH'], HOME: home, LANG: 'C.UTF-8', ...proxies() };
  return spawnSync(command, args, { cwd: clone, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

/** How this machine reaches a registry is no part of the project. */
function proxies(): NodeJS.ProcessEnv {
  const names = Object.keys(process.env).filter((name) =>
    /^(https?_proxy|no_proxy|NODE_EXTRA_CA_CERTS)$/i.test(name),
  );
  return Object.fromEntries(names.map((name) => [name, process.env[name]]));
}

beforeAll(() => {
  mkdirSync(home, { recursive: true });
  if (spawnSync('git', ['clone', '--quiet', root, clone]).status !== 0) copySources();
  if (!isLong) borrowPackages();
});

/** Links to all packages here, but for the two of this repository, which are those of the clone. */
function borrowPackages(): void {
  const modules = join(clone, 'node_modules');
  mkdirSync(modules);
  for (const name of readdirSync(join(root, 'node_modules')))
    symlinkSync(join(root, 'node_modules', name), join(modules, name));
  for (const [name, folder] of [
    ['mcp-valise', '..'],
    ['mcp-valise-cli', '../cli'],
  ] as const) {
    rmSync(join(modules, name), { force: true });
    symlinkSync(folder, join(modules, name));
  }
}

/** Where there is no repository, as in an archive of the sources: everything but what is made from them. */
function copySources(): void {
  const made = /(^|\/)(node_modules|dist|\.dist-[^/]*|\.cache)$/;
  cpSync(root, clone, { recursive: true, filter: (path) => !made.test(path) });
}

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('a fresh clone', () => {
  it('npm start installs, builds and lists the commands', { timeout: 10 * MINUTES }, () => {
    const { status, stdout, stderr } = inClone('npm', 'start', '--silent');
    expect(status, stderr).toBe(0);
    expect(stdout).toContain('✓');
    // It ends by offering the console.
    expect(stderr.trimEnd().split('\n').at(-1)).toContain('valise.js tour --console');
    expect(existsSync(join(clone, 'node_modules'))).toBe(true);
    for (const file of ['dist/wire/public.js', 'cli/dist/main.js'])
      expect(existsSync(join(clone, file)), file).toBe(true);
  });

  it('npm test ends with one line of counts', { timeout: 10 * MINUTES }, () => {
    const filter = ['--no-services', 'test/house/trace.test.ts'];
    const { status, stdout, stderr } = inClone('npm', 'test', '--silent', '--', ...filter);
    expect(status, stderr).toBe(0);
    expect(stdout.trimEnd().split('\n').at(-1)).toMatch(/^[1-9]\d* passed, 0 failed$/);
    expect(stderr).toContain('--no-services: tests that need Redis');
  });

  it('npm test fails if a test fails, a file cannot be loaded or nothing ran', {
    timeout: 10 * MINUTES,
  }, () => {
    mkdirSync(join(clone, 'test/odd'), { recursive: true });
    writeFileSync(
      join(clone, 'test/odd/a.test.ts'),
      "import { it } from 'vitest';\nit('is fine', () => {});\nit('is not', () => { throw new Error('no'); });\nit.skip('is left out', () => {});\n",
    );
    writeFileSync(join(clone, 'test/odd/b.test.ts'), "import './nothing.ts';\n");
    const failing = inClone('npm', 'test', '--silent', '--', '--no-services', 'test/odd');
    expect(failing.status).toBe(1);
    expect(failing.stdout.trimEnd().split('\n').at(-1)).toBe('1 passed, 2 failed, 1 skipped');
    expect(failing.stderr).toContain('skipped in test/odd/a.test.ts');
    const nothing = inClone('npm', 'test', '--silent', '--', '--no-services', 'test/there-is-no-such-test');
    expect(nothing.status).toBe(1);
  });

  it('npm run trace asks for the tests first', () => {
    const { status, stderr } = inClone('npm', 'run', '--silent', 'trace');
    expect(status).toBe(2);
    expect(stderr).toContain('Run `npm test` first');
  });

  it('bin/valise.js builds if dist is missing, and says so', { timeout: 10 * MINUTES }, () => {
    for (const dist of ['dist', 'cli/dist']) rmSync(join(clone, dist), { recursive: true, force: true });
    const { status, stdout, stderr } = inClone('node', 'bin/valise.js', '--version');
    expect(status, stderr).toBe(0);
    expect(stderr).toContain('building it once');
    expect(stdout).toMatch(/^\d+\.\d+\.\d+/);
    expect(inClone('node', 'bin/valise.js', '--version').stderr).toBe('');
  });

  it('bin/valise.js of a broken installation says what to do', () => {
    rmSync(join(clone, 'cli/dist'), { recursive: true, force: true });
    rmSync(join(clone, 'scripts'), { recursive: true, force: true });
    const { status, stderr } = inClone('node', 'bin/valise.js');
    expect(status).toBe(1);
    expect(stderr).toBe(
      'valise: dist/main.js is missing from this installation. Install mcp-valise-cli again.\n',
    );
  });
});
