import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { CommandError } from '../errors.ts';

/** A process of the tour. */
export interface Started {
  readonly pid: number;
  readonly child: ChildProcess;
  /** Kills it as a crash would, and waits until it is gone. */
  kill(): Promise<void>;
}

/** A listening instance of an example. */
export interface Instance extends Started {
  readonly name: string;
  readonly url: URL;
}

/** Returns the path of the launcher that people run, in a checkout and in an installed package. */
function launcher(): string {
  const manifest = createRequire(import.meta.url).resolve('mcp-valise-cli/package.json');
  return join(dirname(manifest), 'bin', 'valise.js');
}

/** The processes that a tour starts. They end with it, however it ends. */
export class Processes {
  readonly #running = new Set<ChildProcess>();
  readonly #killAll = (): void => {
    for (const child of this.#running) child.kill('SIGKILL');
  };

  constructor() {
    // Runs before the directory that they write to is removed.
    process.prependOnceListener('exit', this.#killAll);
  }

  /** Starts `valise …`. */
  start(args: readonly string[], env: Readonly<Record<string, string>> = {}, ipc = false): Started {
    const child = spawn(process.execPath, [launcher(), ...args], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe', ...(ipc ? (['ipc'] as const) : [])],
    });
    this.#running.add(child);
    const gone = once(child, 'exit').finally(() => this.#running.delete(child));
    gone.catch(() => undefined);
    return {
      pid: child.pid ?? 0,
      child,
      async kill() {
        child.kill('SIGKILL');
        await gone;
      },
    };
  }

  /** Starts an example on a free port and waits until it listens. `hear` receives its stderr. */
  async serve(
    name: string,
    example: string,
    args: readonly string[],
    env: Readonly<Record<string, string>>,
    hear?: (words: string) => void,
  ): Promise<Instance> {
    const started = this.start(['example', example, '--http', '0', ...args], env);
    if (hear) started.child.stderr?.setEncoding('utf8').on('data', hear);
    return { ...started, name, url: await listening(example, started.child) };
  }

  /** Kills the processes that are still running. */
  async close(): Promise<void> {
    const running = [...this.#running];
    const gone = running.map((child) => once(child, 'exit'));
    this.#killAll();
    await Promise.all(gone);
    process.off('exit', this.#killAll);
  }
}

function listening(example: string, child: ChildProcess): Promise<URL> {
  let said = '';
  return new Promise((resolve, reject) => {
    const listen = (chunk: unknown): void => {
      said += String(chunk);
      const found = /listening on (http:\S+)/.exec(said)?.[1];
      if (found !== undefined) resolve(new URL(found));
    };
    child.stdout?.on('data', listen);
    child.stderr?.on('data', listen);
    child.once('error', reject);
    child.once('exit', () =>
      reject(
        new CommandError('example-ended', `The example ${example} ended at once: ${said.trim()}`, {
          next: `Try \`valise example ${example} --http 0\` by itself.`,
        }),
      ),
    );
  });
}
