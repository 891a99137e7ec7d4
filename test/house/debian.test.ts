import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { root } from './sources.ts';

const NOBODY = 65_534;
const folder = mkdtempSync(join(tmpdir(), 'valise-debian-'));
chmodSync(folder, 0o755);
cpSync(`${root}scripts`, join(folder, 'scripts'), { recursive: true });
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Asks for Debian packages as a user who may not install any. */
function ensureAsNobody(packages: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const script = `import { ensure } from './scripts/debian.mjs';
    try { ensure(${JSON.stringify(packages)}); console.log('all there'); } catch (error) { console.log(error.message); }`;
  const user = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  return spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
    cwd: folder,
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], ...env },
    ...user,
  }).stdout;
}

describe('programs that the tests need', () => {
  it('Missing programs that may not be installed are named exactly and all at once', () => {
    const message = ensureAsNobody(['bash', 'no-such-program', 'nor-this-one']);
    expect(message).toContain(
      'sudo apt-get install -y --no-install-recommends no-such-program nor-this-one`',
    );
    expect(message).toContain('npm test -- --no-services');
    expect(message).not.toContain('bash');
  });

  it('Installed programs are not requested', () => {
    expect(ensureAsNobody(['bash'])).toBe('all there\n');
  });

  it('Programs are not requested if the environment names a server', () => {
    const named = { VALISE_TEST_REDIS: 'redis://127.0.0.1:1', PATH: '/nowhere' };
    expect(ensureAsNobody(['redis-server'], named)).toBe('all there\n');
  });
});
