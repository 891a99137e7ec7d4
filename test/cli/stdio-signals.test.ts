import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, it, onTestFinished } from 'vitest';
import { isGone, LINGERING, lingering } from './lingering.ts';
import { folder, VALISE } from './valise.ts';

/** A command whose server waits; its pid, and what the command says after that. */
async function waiting(
  args: readonly string[],
): Promise<{ readonly child: ChildProcess; readonly pid: number; readonly said: string[] }> {
  const child = spawn(process.execPath, [VALISE, ...args, '--store', 'memory:']);
  const lines = createInterface({ input: child.stderr });
  const [line] = (await once(lines, 'line')) as [string];
  const pid = Number(line);
  onTestFinished(() => {
    child.kill('SIGKILL');
    if (!isGone(pid)) process.kill(pid, 'SIGKILL');
  });
  const said: string[] = [];
  lines.on('line', (more) => void said.push(more));
  return { child, pid, said };
}

describe('a stdio server that does not see its input end', { timeout: 20_000 }, () => {
  it.each([
    { signal: 'SIGTERM', args: ['call', lingering('deaf'), 'wait'] },
    { signal: 'SIGINT', args: ['call', lingering('deaf'), 'wait'] },
    { signal: 'SIGHUP', args: ['call', lingering('deaf'), 'wait'] },
    { signal: 'SIGTERM', args: ['call', lingering('deaf'), 'wait', '--sdk', 'v1'] },
    { signal: 'SIGTERM', args: ['list', lingering('deaf')] },
    { signal: 'SIGTERM', args: ['list', lingering('deaf', 'mute'), '--era', 'legacy'] },
    { signal: 'SIGTERM', args: ['list', lingering('deaf', 'mute'), '--era', 'auto'] },
    { signal: 'SIGTERM', args: ['list', lingering('deaf', 'mute'), '--era', 'modern'] },
  ] as const)('ends with its command by $signal: $args', async ({ signal, args }) => {
    const { child, pid, said } = await waiting(args);
    expect(isGone(pid)).toBe(false);
    child.kill(signal);
    expect(await once(child, 'exit')).toEqual([null, signal]);
    expect(isGone(pid)).toBe(true);
    expect(said.filter((line) => !line.includes('still waiting'))).toEqual([]);
  });

  it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('ends with valise doctor by %s', async (signal) => {
    // What it says on stderr is not shown by the doctor.
    const pipe = join(await folder(), 'pipe');
    execFileSync('/usr/bin/mkfifo', [pipe]);
    const server = `stdio:sh -c 'exec ${process.execPath} ${LINGERING} deaf mute first 2> ${pipe}'`;
    const child = spawn(process.execPath, [VALISE, 'doctor', server, '--store', 'memory:']);
    const [line] = (await once(createInterface({ input: createReadStream(pipe) }), 'line')) as [string];
    const pid = Number(line);
    onTestFinished(() => {
      child.kill('SIGKILL');
      if (!isGone(pid)) process.kill(pid, 'SIGKILL');
    });
    child.kill(signal);
    expect(await once(child, 'exit')).toEqual([null, signal]);
    expect(isGone(pid)).toBe(true);
  });

  it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('ends with valise connect by %s', async (signal) => {
    const { child, pid } = await waiting(['connect', lingering('deaf', 'mute', 'first')]);
    child.kill(signal);
    await once(child, 'exit');
    expect(isGone(pid)).toBe(true);
  });
});
