import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  lutimesSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fileLock } from '../../src/store/file/lock.ts';
import { fileStore } from '../../src/store/index.ts';
import { temporaryFolder, tsx } from './places.ts';

let folder: string;
let path: string;
let remove: () => void;
beforeEach(() => {
  ({ folder, remove } = temporaryFolder());
  path = `${folder}/state.json.lock`;
});
afterEach(() => remove());

/** What the lock of another process says, while it is held and afterwards: that process is over by now. */
function lockOfDeadProcess(): string {
  const module = fileURLToPath(new URL('../../src/store/file/lock.ts', import.meta.url));
  const program = `import { fileLock } from ${JSON.stringify(module)};
    fileLock(${JSON.stringify(path)}).acquireSync();
    process.kill(process.pid, 'SIGKILL');`;
  spawnSync(process.execPath, [...tsx, '--input-type=module', '-e', program]);
  return readlinkSync(path);
}

describe('the lock file', () => {
  it('One process at a time holds the lock', async () => {
    const [one, two] = [fileLock(path), fileLock(path, { patience: 0.05 })];
    await one.acquire();
    expect([one.held(), two.held()]).toEqual([true, false]);
    await expect(two.acquire()).rejects.toMatchObject({
      code: 'store-busy',
      message: expect.stringContaining(`process ${process.pid}`),
    });
    two.release();
    expect(one.held()).toBe(true);
    one.release();
    await two.acquire();
    expect(two.held()).toBe(true);
    two.release();
    expect(readdirSync(folder)).toEqual([]);
  });

  it('The next process gets the lock of a killed holder at once, and cleans up', async () => {
    const dead = lockOfDeadProcess();
    const told: string[] = [];
    const lock = fileLock(path, { patience: 0, abandoned: (nonce) => told.push(nonce) });
    await lock.acquire().catch(() => lock.acquire());
    expect(lock.held()).toBe(true);
    expect(told).toEqual([dead.split('.')[3]]);
  });

  it('A lock is not mistaken for that of a process with the same id', () => {
    const [pid, start, host, nonce] = fileLockText();
    symlinkSync([pid, Number(start) - 1, host, nonce].join('.'), path);
    const lock = fileLock(path, { patience: 1 });
    lock.acquireSync();
    expect(lock.held()).toBe(true);
  });

  it('A lock of another machine is respected only for a while', async () => {
    symlinkSync('1.1.another-host.nonce', path);
    const lock = fileLock(path, { patience: 0.05 });
    await expect(lock.acquire()).rejects.toMatchObject({ code: 'store-busy' });
    const old = new Date(Date.now() - 60_000);
    lutimesSync(path, old, old);
    lock.acquireSync();
    expect(lock.held()).toBe(true);
  });

  it('A lock that is a file, as on drives without links, is understood', () => {
    const dead = lockOfDeadProcess();
    rmSync(path);
    writeFileSync(path, dead);
    const lock = fileLock(path, { patience: 1 });
    lock.acquireSync();
    expect(lock.held()).toBe(true);
  });

  it('One process at a time breaks a stale lock, and others wait', () => {
    const dead = lockOfDeadProcess();
    const [pid, start, host] = fileLockText();
    symlinkSync([pid, start, host, 'another breaker'].join('.'), `${path}.break`);
    const lock = fileLock(path, { patience: 0.05 });
    expect(() => lock.acquireSync()).toThrow(/busy/);
    expect(readlinkSync(path)).toBe(dead);
    // One that died while it broke a lock is no hindrance either.
    rmSync(`${path}.break`);
    symlinkSync(dead, `${path}.break`);
    lock.acquireSync();
    expect(existsSync(`${path}.break`)).toBe(false);
  });

  it('A write starts over and loses nothing if its lock was broken by mistake', async () => {
    const file = `${folder}/state.json`;
    const [one, two] = [fileStore(file), fileStore(file)];
    const program = `import { rmSync } from 'node:fs'; process.send('ready');
      for (;;) rmSync(${JSON.stringify(path)}, { force: true });`;
    const thief = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    await once(thief, 'message');
    try {
      for (let n = 0; n < 10; n++) await Promise.all([one.put(`one/${n}`, n), two.put(`two/${n}`, n)]);
    } finally {
      thief.kill('SIGKILL');
      await once(thief, 'exit');
    }
    expect((await one.list('')).keys).toHaveLength(20);
    expect(readdirSync(folder)).toEqual(['state.json']);
  });

  function fileLockText(): string[] {
    const probe = `${folder}/probe.lock`;
    const lock = fileLock(probe);
    lock.acquireSync();
    const text = readlinkSync(probe);
    lock.release();
    return text.split('.');
  }
});
