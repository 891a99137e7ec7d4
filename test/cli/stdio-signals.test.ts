import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, it, type TestContext } from 'vitest';
import { isGone, LINGERING, lingering } from './lingering.ts';
import { VALISE } from './valise.ts';

/** A command whose server waits; its pid, and what the command says after that. */
async function waiting(
  args: readonly string[],
  { onTestFinished }: TestContext,
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

// Each test waits until the command has given up on its server, so they run at the same time.
describe.concurrent('a stdio server that does not see its input end', { timeout: 60_000 }, () => {
  it.for([
    { signal: 'SIGTERM', args: ['call', lingering('deaf'), 'wait'] },
    { signal: 'SIGINT', args: ['call', lingering('deaf'), 'wait'] },
    { signal: 'SIGHUP', args: ['call', lingering('deaf'), 'wait'] },
    { signal: 'SIGTERM', args: ['call', lingering('deaf'), 'wait', '--sdk', 'v1'] },
    { signal: 'SIGTERM', args: ['list', lingering('deaf')] },
    { signal: 'SIGTERM', args: ['list', lingering('deaf', 'mute'), '--era', 'legacy'] },
    { signal: 'SIGTERM', args: ['list', lingering('deaf', 'mute'), '--era', 'auto'] },
    { signal: 'SIGTERM', args: ['list', lingering('deaf', 'mute'), '--era', 'modern'] },
  ] as const)('ends with its command by $signal: $args', async ({ signal, args }, test) => {
    const { child, pid, said } = await waiting(args, test);
    expect(isGone(pid)).toBe(false);
    child.kill(signal);
    expect(await once(child, 'exit')).toEqual([null, signal]);
    expect(isGone(pid)).toBe(true);
    expect(said.filter((line) => !line.includes('still waiting'))).toEqual([]);
  });

  it('ends with valise doctor by a signal', async ({ onTestFinished }) => {
    // What it says on stderr is not shown by the doctor.
    const place = await mkdtemp(join(tmpdir(), 'valise-signals-'));
    onTestFinished(() => rm(place, { recursive: true }));
    const pipe = join(place, 'pipe');
    execFileSync('/usr/bin/mkfifo', [pipe]);
    const server = `stdio:sh -c 'exec ${process.execPath} ${LINGERING} deaf mute first 2> ${pipe}'`;
    const child = spawn(process.execPath, [VALISE, 'doctor', server, '--store', 'memory:']);
    const [line] = (await once(createInterface({ input: createReadStream(pipe) }), 'line')) as [string];
    const pid = Number(line);
    onTestFinished(() => {
      child.kill('SIGKILL');
      if (!isGone(pid)) process.kill(pid, 'SIGKILL');
    });
    child.kill('SIGINT');
    expect(await once(child, 'exit')).toEqual([null, 'SIGINT']);
    expect(isGone(pid)).toBe(true);
  });

  it('ends with valise connect by a signal', async (test) => {
    const { child, pid } = await waiting(['connect', lingering('deaf', 'mute', 'first')], test);
    child.kill('SIGHUP');
    await once(child, 'exit');
    expect(isGone(pid)).toBe(true);
  });
});
