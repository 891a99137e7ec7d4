import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { memoryStore, type Store } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { type Snapshot, SnapshotKeeper } from '../../src/client/connection/snapshot.ts';
import { keyOf } from '../../src/client/identity/target.ts';
import { isRunning, ownProcess } from '../../src/store/kit/process.ts';
import { SESSIONFUL } from '../../src/wire/codec.ts';

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

describe('the process mark', () => {
  it('A process mark tells whether another process is alive, from the moment it is killed', async () => {
    const { mark, kill } = await other();
    expect(isRunning(mark)).toBe(true);
    await kill();
    expect(isRunning(mark)).toBe(false);
  });

  it('A process mark does not match another process with the same id, no process, or a process on an unknown host', async () => {
    const { mark } = await other();
    expect(isRunning(ownProcess())).toBe(true);
    expect(isRunning({ ...mark, host: 'another' })).toBeUndefined();
    if (mark.started !== '0') expect(isRunning({ ...mark, started: '1' })).toBe(false);
    for (const pid of [0, -1, 1.5, Number.NaN]) expect(isRunning({ ...mark, pid })).toBe(false);
  });

  it('A process mark uses only the process id if the system provides no more', async () => {
    const { mark, kill } = await other();
    expect(isRunning({ ...mark, started: '0' })).toBe(true);
    await kill();
    expect(isRunning({ ...mark, started: '0' })).toBe(false);
  });

  it.runIf(process.platform === 'linux')('A process mark does not match a zombie process', async () => {
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

describe('a session that one process uses alone', () => {
  const ID = { target: 'https://example.com/mcp', principal: '' };
  const KEY = `${keyOf('connection', ID)}/legacy`;
  const SNAPSHOT: Snapshot = {
    codec: SESSIONFUL,
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
    const { codec, ...rest } = SNAPSHOT;
    const value = { ...rest, era: codec.era, holder: { ...mark, connection: 'other', at } };
    await store.put(KEY, JSON.parse(JSON.stringify(value)));
  };

  it('One running process takes an exclusive session, and the next one takes it as soon as the first is killed', async () => {
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

  it('Processes that do not ask for exclusive use share a session', async () => {
    await heldBy((await other()).mark);
    expect(await new SnapshotKeeper(store, ID).take(SNAPSHOT)).toBe(true);
  });

  it('A connection that lost its session to another one of the same process does not release it', async () => {
    const [one, two] = [keeper(), keeper()];
    expect([await one.take(SNAPSHOT), await two.take(SNAPSHOT)]).toEqual([true, true]);
    await one.release();
    expect(await holder()).toMatchObject({ holder: ownProcess() });
    await two.release();
    expect(await holder()).not.toHaveProperty('holder');
  });

  it('A connection that closes while it takes a session releases the session', async () => {
    const own = keeper();
    await Promise.all([own.take(SNAPSHOT), own.release()]);
    expect(await holder()).not.toHaveProperty('holder');
  });

  it('An exclusive session is free after ten minutes if only a process id names its holder', async () => {
    const { mark } = await other();
    await heldBy({ ...mark, started: '0' });
    expect(await keeper().take(SNAPSHOT)).toBe(false);
    await heldBy({ ...mark, started: '0' }, Date.now() - 600_000);
    expect(await keeper().take(SNAPSHOT)).toBe(true);
  });

  it('An exclusive session is free if the store fails', async () => {
    await store.close();
    const own = keeper();
    expect(await own.take(SNAPSHOT)).toBe(true);
    await own.release();
  });
});
