import { execFile, execFileSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { onTestFinished, vi } from 'vitest';
import { folder } from './valise.ts';

const run = promisify(execFile);

/** True where there is a terminal to type into. */
export const hasTmux = ((): boolean => {
  try {
    execFileSync('tmux', ['-V'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
})();

/** A program on a terminal. */
export interface Terminal {
  /** Everything on it so far. */
  screen(): Promise<string>;
  /** What the program has written to it, byte by byte. */
  written(): Promise<string>;
  /** Waits until it shows something. */
  shows(what: RegExp): Promise<void>;
  /** Types keys, by the names that tmux has for them. */
  type(...keys: string[]): Promise<void>;
}

/** Runs a command on a terminal of its own, which shows the exit code in the end. */
export async function onTerminal(command: readonly string[], patience = 60_000): Promise<Terminal> {
  const socket = join(await folder(), 'tmux');
  const tmux = async (...args: string[]): Promise<string> =>
    (await run('tmux', ['-S', socket, '-f', '/dev/null', ...args])).stdout;
  const line = `${command.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ')}; echo "exit code $?"; cat`;
  const bytes = `${socket}.bytes`;
  // The pipe stands before the program starts.
  await tmux(
    'new-session',
    '-d',
    '-x',
    '110',
    '-y',
    '400',
    `until [ -e '${bytes}' ]; do sleep 0.05; done; ${line}`,
  );
  await tmux('pipe-pane', `cat > '${bytes}'`);
  onTestFinished(async () => void (await tmux('kill-server').catch(() => undefined)));
  const screen = (): Promise<string> => tmux('capture-pane', '-p', '-S', '-');
  return {
    screen,
    written: () => readFile(bytes, 'utf8'),
    async shows(what) {
      await vi.waitFor(
        async () => {
          const now = await screen();
          if (!what.test(now)) throw new Error(`The terminal does not show ${what}, but:\n${now.trimEnd()}`);
        },
        { timeout: patience, interval: 200 },
      );
    },
    type: async (...keys) => void (await tmux('send-keys', ...keys)),
  };
}
