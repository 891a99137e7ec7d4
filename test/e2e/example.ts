import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { child } from '../child.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** How to start an example, for a client that starts stdio servers itself. Servers that are for tests alone are served in the same way. */
export function commandOf(name: string, ...args: string[]): { command: string; args: string[]; cwd: string } {
  const folder = ['probe', 'ledger', 'greeter'].includes(name) ? 'test/e2e' : 'examples';
  return {
    command: process.execPath,
    args: [child(`${root}${folder}/${name}.ts`), ...args],
    cwd: root,
  };
}

/** An example that runs as a process of its own. */
export interface Running {
  readonly child: ChildProcess;
  /** What it has written to stderr so far. */
  stderr(): string;
  /** Ends it with a signal; its exit code. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

/** Starts an example. */
export function start(
  name: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Running {
  const { command, args: all, cwd } = commandOf(name, ...args);
  const started = spawn(command, all, { cwd, env: { ...process.env, ...env }, stdio: 'pipe' });
  const ended = once(started, 'close') as Promise<[number | null]>;
  let stderr = '';
  started.stderr.setEncoding('utf8').on('data', (chunk: string) => (stderr += chunk));
  return {
    child: started,
    stderr: () => stderr,
    async stop(signal) {
      if (signal) started.kill(signal);
      return (await ended)[0];
    },
  };
}

/** Starts an example on a free port; its URL, once it listens. */
export async function startHttp(
  name: string,
  args: readonly string[] = [],
  env?: Readonly<Record<string, string>>,
): Promise<Running & { readonly url: URL }> {
  const running = start(name, ['--http', '0', ...args], env);
  const url = await new Promise<URL>((resolve, reject) => {
    let out = '';
    running.child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
      out += chunk;
      const found = /^listening on (\S+)$/m.exec(out);
      if (found?.[1]) resolve(new URL(found[1]));
    });
    running.child.once('close', () => reject(new Error(`The example ended: ${running.stderr()}`)));
  });
  return { ...running, url };
}
