import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { build } from '../../scripts/prepare.mjs';
import { manifest } from './manifest.ts';
import { root } from './sources.ts';

const page = readFileSync(`${root}CONTRIBUTING.md`, 'utf8');
const commands = page
  .split('```sh by=test/house/contributing.test.ts\n')[1]!
  .split('\n```')[0]!
  .split('\n')
  .map((line) => line.replace(/\s+#.*$/, ''));

/** Runs a command of the page, with nothing on stdin. */
function run(command: string) {
  return spawnSync('bash', ['-c', command], {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

describe('CONTRIBUTING', { timeout: 120_000 }, () => {
  beforeAll(build, 120_000);

  it('CONTRIBUTING tells how to run one test, one bench and one example', () => {
    expect(commands).toHaveLength(4);
  });

  it.each(commands.filter((command) => command.includes('vitest run')))(
    'The command %s finds tests',
    (command) => {
      // Listing them shows that the filter is right; running them here would be running them twice.
      const { status, stdout, stderr } = run(command.replace('vitest run', 'vitest list'));
      expect(status, stderr).toBe(0);
      expect(stdout).toContain(' > ');
    },
  );

  it.each(commands.filter((command) => command.includes('bench')))(
    'The command %s names a bench',
    (command) => {
      const name = command.split(' ').at(-1);
      expect(existsSync(`${root}bench/${name}.mjs`)).toBe(true);
      expect(run('npm run --silent bench').stderr).toContain(`${name}`);
    },
  );

  it.each(commands.filter((command) => command.includes('bin/valise.js')))(
    'The command %s starts, and ends with its input',
    (command) => {
      const { status, stderr } = run(command);
      expect(status, stderr).toBe(0);
    },
  );

  it('CONTRIBUTING names only npm commands that exist', () => {
    const names = [...page.matchAll(/npm run ([\w:]+)/g)].map(([, name = '']) => name);
    expect(names.filter((name) => !(name in manifest.scripts))).toEqual([]);
  });

  it('CONTRIBUTING names only folders that exist', () => {
    const folders = [...page.matchAll(/^(\w+\/(?:\w+\/)?) /gm)].map(([, path = '']) => path);
    expect(folders.length).toBeGreaterThan(8);
    expect(folders.filter((path) => !existsSync(root + path))).toEqual([]);
  });
});
