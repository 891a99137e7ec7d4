import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { root } from './sources.ts';

// scripts/prepare.mjs on a small project with a bundler that only counts its runs.
const folder = mkdtempSync(join(tmpdir(), 'valise-build-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const file = (path: string) => join(folder, path);
function write(path: string, text: string): void {
  mkdirSync(join(file(path), '..'), { recursive: true });
  writeFileSync(file(path), text);
}

cpSync(`${root}scripts`, file('scripts'), { recursive: true });
write('package.json', '{ "type": "module" }');
write('src/a.ts', 'a');
write(
  'node_modules/tsdown/dist/run.mjs',
  `import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
   appendFileSync('runs', 'x');
   const out = process.env.VALISE_DIST;
   mkdirSync(out + '/deep', { recursive: true });
   const text = readFileSync('src/a.ts', 'utf8');
   if (text === 'broken') process.exit(1);
   writeFileSync(out + '/deep/' + text + '.js', text);
   mkdirSync('cli/' + out, { recursive: true });
   writeFileSync('cli/' + out + '/main.js', text);`,
);

function build(times = 1) {
  const script = `import { build } from './scripts/prepare.mjs'; await Promise.all(Array.from({ length: ${times} }, build));`;
  return spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
    cwd: folder,
    encoding: 'utf8',
  });
}
const runs = () => readFileSync(file('runs'), 'utf8').length;

describe('the build', () => {
  it('The build runs if there is no dist, and not again while the sources stay the same', () => {
    expect(build().status).toBe(0);
    for (const made of ['dist/deep/a.js', 'cli/dist/main.js'])
      expect(existsSync(file(made)), made).toBe(true);
    expect(build().status).toBe(0);
    expect(runs()).toBe(1);
  });

  it('The build runs again when a source changed, and deletes outdated output', () => {
    write('src/a.ts', 'b');
    expect(build().status).toBe(0);
    expect(runs()).toBe(2);
    expect(existsSync(file('dist/deep/b.js'))).toBe(true);
    expect(existsSync(file('dist/deep/a.js'))).toBe(false);
  });

  it('The build runs once for several concurrent requests', () => {
    write('src/a.ts', 'c');
    expect(build(4).status).toBe(0);
    expect(runs()).toBe(3);
  });

  it('The build does not wait for a process that died while building', () => {
    write('src/a.ts', 'd');
    const { pid } = spawnSync(process.execPath, ['--version']);
    spawnSync('ln', ['-s', String(pid), file('.cache/build.lock')]);
    expect(build().status).toBe(0);
    expect(existsSync(file('.cache/build.lock'))).toBe(false);
  });

  it('A failed build leaves the existing dist unchanged and says so', () => {
    write('src/a.ts', 'broken');
    const { status, stderr } = build();
    expect(status).not.toBe(0);
    expect(stderr).toContain('ended with code 1');
    expect(existsSync(file('dist/deep/d.js'))).toBe(true);
  });
});
