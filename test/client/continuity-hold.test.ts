import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { memoryStore, type Store } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { SessionHold } from '../../src/client/connection/hold.ts';
import { isRunning, ownProcess } from '../../src/store/kit/process.ts';

const KEY = 'connection/x/y/holder';
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

describe('the hold on a session', () => {
  let store: Store;
  beforeEach(() => {
    store = memoryStore();
  });
  afterEach(() => vi.useRealTimers());
  const holder = async () => (await store.get(KEY))?.value;

  it('is had by one living process, and by the next as soon as that is killed', async () => {
    const { mark, kill } = await other();
    await store.put(KEY, { ...mark });
    const hold = new SessionHold(store, KEY);
    expect(await hold.take()).toBe(false);
    await hold.release();
    expect(await holder()).toEqual(mark);
    await kill();
    expect(await hold.take()).toBe(true);
    expect(await holder()).toEqual({ ...ownProcess(), format: 1 });
    await hold.release();
    expect(await holder()).toBeUndefined();
  });

  it('costs one write where it has been looked at before, and is not had where another was faster', async () => {
    const { mark } = await other();
    const dead = { ...mark, pid: 2 ** 30 };
    await store.put(KEY, dead);
    const used: string[] = [];
    const counting = new Proxy(store, {
      get: (target, name: keyof Store) =>
        ((...all: never[]) => {
          used.push(name);
          return (target[name] as (...all: never[]) => unknown)(...all);
        }) as never,
    });
    const one = new SessionHold(counting, KEY);
    one.look();
    expect(await one.take()).toBe(true);
    expect(used).toEqual(['get', 'put']);
    await store.put(KEY, dead);
    const two = new SessionHold(store, KEY);
    two.look();
    await store.put(KEY, { ...mark });
    expect(await two.take()).toBe(false);
  });

  it('is given back by nobody who has lost it to another connection of the process', async () => {
    const one = new SessionHold(store, KEY);
    const two = new SessionHold(store, KEY);
    expect([await one.take(), await two.take()]).toEqual([true, true]);
    await one.release();
    expect(await holder()).toEqual({ ...ownProcess(), format: 1 });
    await two.release();
    expect(await holder()).toBeUndefined();
  });

  it('is given back also by who closes while it is taken', async () => {
    const hold = new SessionHold(store, KEY);
    await Promise.all([hold.take(), hold.release()]);
    expect(await holder()).toBeUndefined();
  });

  it('is kept up as long as the process lives, and is over some time after', async () => {
    vi.useFakeTimers();
    const hold = new SessionHold(store, KEY);
    await hold.take();
    await vi.advanceTimersByTimeAsync(3_600_000);
    expect(await holder()).toEqual({ ...ownProcess(), format: 1 });
    // As after its end: nothing is renewed. The clock begins where it began, too.
    vi.clearAllTimers();
    await vi.advanceTimersByTimeAsync(7_200_000);
    expect(await holder()).toBeUndefined();
  });

  it('keeps nobody out where the store does not work', async () => {
    await store.close();
    const hold = new SessionHold(store, KEY);
    hold.look();
    expect(await hold.take()).toBe(true);
    await hold.release();
  });
});
