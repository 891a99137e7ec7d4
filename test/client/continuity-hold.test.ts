import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { memoryStore, type Store } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { keyOf } from '../../src/client/connection/key.ts';
import { type Snapshot, SnapshotKeeper } from '../../src/client/connection/snapshot.ts';
import { isRunning, ownProcess } from '../../src/store/kit/process.ts';

const MARK =
  'const { ownProcess } = await import("./src/store/kit/process.ts"); console.log(JSON.stringify(ownProcess()));';

/** Another process of this machine, and how it marks itself. */
async function other() {
  const script = `${MARK} setInterval(() => {}, 1e9);`;
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'close');
    child.kill('SIGKILL');
    await gone;
  };
  onTestFinished(kill);
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  return { mark: JSON.parse(line) as ReturnType<typeof ownProcess>, kill };
}

describe('the mark of a process', () => {
  it('says whether another one lives, from the moment that it is killed', async () => {
    const { mark, kill } = await other();
    expect(isRunning(mark)).toBe(true);
    await kill();
    expect(isRunning(mark)).toBe(false);
  });

  it('is not that of another process with the same id, of nobody, or of one whose host cannot be asked', async () => {
    const { mark } = await other();
    expect(isRunning(ownProcess())).toBe(true);
    expect(isRunning({ ...mark, host: 'another' })).toBeUndefined();
    if (mark.started !== '0') expect(isRunning({ ...mark, started: '1' })).toBe(false);
    for (const pid of [0, -1, 1.5, Number.NaN]) expect(isRunning({ ...mark, pid })).toBe(false);
  });

  it('goes by the id alone where the system tells no more', async () => {
    const { mark, kill } = await other();
    expect(isRunning({ ...mark, started: '0' })).toBe(true);
    await kill();
    expect(isRunning({ ...mark, started: '0' })).toBe(false);
  });

  it.runIf(process.platform === 'linux')('is of none that is dead and not buried', async () => {
    // Whoever takes the place of the shell knows nothing of its child, and takes no note of its end.
    const parent = spawn('sh', ['-c', 'sleep 1000 & echo $!; exec sleep 1000'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    onTestFinished(() => void parent.kill('SIGKILL'));
    const [line] = (await once(createInterface({ input: parent.stdout }), 'line')) as [string];
    const pid = Number(line);
    const stat = () => readFileSync(`/proc/${pid}/stat`, 'utf8').split(' ');
    const mark = { ...ownProcess(), pid, started: stat()[21] as string };
    expect(isRunning(mark)).toBe(true);
    const own = () => readFileSync(`/proc/${parent.pid}/comm`, 'utf8').trim();
    await vi.waitFor(() => expect(own()).toBe('sleep'));
    process.kill(pid, 'SIGKILL');
    await vi.waitFor(() => expect(stat()[2]).toBe('Z'));
    expect(isRunning(mark)).toBe(false);
    expect(isRunning({ ...mark, started: '0' })).toBe(false);
  });
});

describe('A session that one process uses alone', () => {
  const ID = { target: 'https://example.com/mcp', principal: '' };
  const KEY = `${keyOf('connection', ID)}/legacy`;
  const SNAPSHOT: Snapshot = {
    era: 'legacy',
    protocolVersion: '2025-11-25',
    introduction: {},
    sessionId: 'one',
    savedAt: 1,
  };
  let store: Store;
  beforeEach(async () => {
    store = memoryStore();
    await keeper().save(SNAPSHOT);
  });
  afterEach(() => vi.useRealTimers());
  const keeper = () => new SnapshotKeeper(store, ID, { isAlone: true });
  const holder = async () => (await store.get(KEY))?.value as { holder?: object } | undefined;
  const heldBy = async (mark: object, at = Date.now()) => {
    const value = { ...SNAPSHOT, holder: { ...mark, connection: 'other', at } };
    await store.put(KEY, JSON.parse(JSON.stringify(value)));
  };

  it('is taken by one running process, and by the next as soon as that is killed', async () => {
    const { mark, kill } = await other();
    await heldBy(mark);
    const own = keeper();
    expect(await own.take(SNAPSHOT)).toBe(false);
    await own.release();
    expect(await holder()).toMatchObject({ holder: mark });
    await kill();
    expect(await own.take(SNAPSHOT)).toBe(true);
    expect(await holder()).toMatchObject({ holder: ownProcess() });
    await own.release();
    expect(await holder()).not.toHaveProperty('holder');
  });

  it('is shared by processes that do not ask to be alone', async () => {
    await heldBy((await other()).mark);
    expect(await new SnapshotKeeper(store, ID).take(SNAPSHOT)).toBe(true);
  });

  it('is not released by a connection that lost it to another one of the process', async () => {
    const [one, two] = [keeper(), keeper()];
    expect([await one.take(SNAPSHOT), await two.take(SNAPSHOT)]).toEqual([true, true]);
    await one.release();
    expect(await holder()).toMatchObject({ holder: ownProcess() });
    await two.release();
    expect(await holder()).not.toHaveProperty('holder');
  });

  it('is released by a connection that closes while it takes the session', async () => {
    const own = keeper();
    await Promise.all([own.take(SNAPSHOT), own.release()]);
    expect(await holder()).not.toHaveProperty('holder');
  });

  it('is free after ten minutes if only an id tells who uses it', async () => {
    const { mark } = await other();
    await heldBy({ ...mark, started: '0' });
    expect(await keeper().take(SNAPSHOT)).toBe(false);
    await heldBy({ ...mark, started: '0' }, Date.now() - 600_000);
    expect(await keeper().take(SNAPSHOT)).toBe(true);
  });

  it('is free if the store does not work', async () => {
    await store.close();
    const own = keeper();
    expect(await own.take(SNAPSHOT)).toBe(true);
    await own.release();
  });
});
