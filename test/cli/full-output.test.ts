import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { open, readdir } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { because } from '../skip.ts';
import { isRunning } from './is-running.ts';
import { folder, VALISE } from './valise.ts';

describe('valise, if there is no room left for its output', () => {
  it.skipIf(!existsSync('/dev/full')).each([[['status', '--json', '--store', 'memory:']], [['--help']]])(
    'says so in one line, and fails: %s',
    because('needs /dev/full'),
    async (args) => {
      const full = await open('/dev/full', 'w');
      const child = spawn(process.execPath, [VALISE, ...args], { stdio: ['ignore', full.fd, 'pipe'] });
      const [said, [code]] = await Promise.all([
        text(child.stderr as NodeJS.ReadableStream),
        once(child, 'close'),
      ]);
      await full.close();
      expect(said).toMatch(/^valise: The output could not be written \(.*ENOSPC.*\)\.\n$/);
      expect(code).toBe(1);
    },
  );
});

describe('valise, if its output is no longer read', () => {
  // The tour has not shown that all claims held, as 0 would say.
  it.each([
    [['tour', '--story', 'bug'], 1],
    [['cluster', 'notebook', '--mode', 'stored', '--http', '0'], 0],
  ])('leaves no process and no folder behind: %s', { timeout: 60_000 }, async (args, code) => {
    const TMPDIR = await folder();
    const child = spawn(process.execPath, [VALISE, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, TMPDIR },
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    const said = text(child.stderr as NodeJS.ReadableStream);
    const ended = once(child, 'exit');
    let pid: number | undefined;
    for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
      pid = Number(/(?:process|pid) (\d+)/.exec(line)?.[1]);
      if (pid) break;
    }
    expect(await readdir(TMPDIR)).toHaveLength(1);
    child.stdout?.destroy();
    expect(await ended).toEqual([code, null]);
    expect(await said).toBe('');
    expect(await readdir(TMPDIR)).toEqual([]);
    await vi.waitFor(() => expect(isRunning(pid as number)).toBe(false), { timeout: 10_000 });
  });
});
