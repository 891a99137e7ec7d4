import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { child as bundle } from '../child.ts';
import type { Orders } from './continuity-child.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** A host in a process of its own. */
export interface Host {
  readonly child: ChildProcess;
  /** What it has said so far. */
  readonly lines: string[];
  /** The numbers that it was answered. */
  counts(): number[];
  /** Resolves once it is loaded, and waits to begin. */
  ready(): Promise<void>;
  begin(): void;
  /** Resolves when it has said so many lines, or has ended. */
  heard(lines: number): Promise<void>;
  /** Ends it as a crash does. */
  kill(): Promise<void>;
  /** Waits for it to end by itself; what it wrote to stderr, where it failed. */
  ended(): Promise<string>;
}

export function startHost(orders: Orders): Host {
  const child = spawn(
    process.execPath,
    [bundle(`${root}test/e2e/continuity-child.ts`), JSON.stringify(orders)],
    { cwd: root, stdio: ['pipe', 'pipe', 'pipe'] },
  );
  const lines: string[] = [];
  let stderr = '';
  let wake = (): void => {};
  const exit = once(child, 'close').then(([code]) => {
    wake();
    return code === 0 ? '' : `exit ${String(code)}: ${stderr}`;
  });
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (stderr += chunk));
  child.stdin.on('error', () => {});
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(line);
    wake();
  });
  const until = async (enough: () => boolean): Promise<void> => {
    while (!enough() && child.exitCode === null && child.signalCode === null)
      await new Promise<void>((resolve) => (wake = resolve));
  };
  return {
    child,
    lines,
    counts: () => lines.flatMap((line) => (line.startsWith('count ') ? [Number(line.slice(6))] : [])),
    ready: () => until(() => lines.includes('ready')),
    begin: () => void child.stdin.write('go\n'),
    heard: (enough) => until(() => lines.length >= enough),
    async kill() {
      child.kill('SIGKILL');
      await exit;
    },
    ended: () => exit,
  };
}
