import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { root } from './sources.ts';

// `.ci/run` with an npm that says what it is told to: only the adding up is looked at here.
const folder = mkdtempSync(join(tmpdir(), 'valise-ci-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function ci(tests: string, checks: string, compat = 'echo "0 passed, 0 failed"') {
  const npm = join(folder, 'npm');
  writeFileSync(npm, `#!/bin/sh\ncase "$*" in test*) ${tests};; *check) ${checks};; *) ${compat};; esac\n`);
  chmodSync(npm, 0o755);
  const env = { ...process.env, PATH: `${folder}${delimiter}${process.env['PATH']}` };
  const { status, stdout } = spawnSync(join(root, '.ci/run'), [], { env, encoding: 'utf8' });
  return { status, last: stdout.trimEnd().split('\n').at(-1) };
}

describe('.ci/run', () => {
  it('.ci/run adds up tests and checks', () => {
    expect(ci('echo "40 passed, 0 failed, 2 skipped"', 'echo "8 passed, 0 failed"')).toEqual({
      status: 0,
      last: '48 passed, 0 failed',
    });
  });

  it('.ci/run adds the tests with real packages', () => {
    expect(
      ci('echo "40 passed, 0 failed"', 'echo "8 passed, 0 failed"', 'echo "70 passed, 1 failed"; exit 1'),
    ).toEqual({ status: 1, last: '118 passed, 1 failed' });
  });

  it('.ci/run fails if either part fails', () => {
    expect(ci('echo "40 passed, 1 failed"; exit 1', 'echo "8 passed, 0 failed"')).toEqual({
      status: 1,
      last: '48 passed, 1 failed',
    });
    expect(ci('echo "40 passed, 0 failed"', 'echo "6 passed, 2 failed"; exit 1')).toEqual({
      status: 1,
      last: '46 passed, 2 failed',
    });
  });

  it('.ci/run counts a part without its last line, or with an unexpected exit code, as a failure', () => {
    expect(ci('echo "could not install"; exit 1', 'echo "8 passed, 0 failed"')).toEqual({
      status: 1,
      last: '8 passed, 1 failed',
    });
    expect(ci('echo "40 passed, 0 failed"; exit 3', 'echo "8 passed, 0 failed"')).toEqual({
      status: 1,
      last: '48 passed, 1 failed',
    });
  });

  it('.ci/run gives its parts CI=true and no stdin', () => {
    expect(
      ci('test "$CI" = true && ! read line && echo "1 passed, 0 failed"', 'echo "1 passed, 0 failed"'),
    ).toEqual({
      status: 0,
      last: '2 passed, 0 failed',
    });
  });
});
