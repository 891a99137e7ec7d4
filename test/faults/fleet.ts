import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { build } from '../../scripts/prepare.mjs';
import { freePort, startDocumentedNginx } from '../services.ts';

const SERVER = fileURLToPath(new URL('./server.mjs', import.meta.url));

/** One process of the fleet. */
export interface Instance {
  signal(name: NodeJS.Signals): void;
  /** Kills it with SIGKILL. */
  kill(): Promise<void>;
  /** Ends it in good order. */
  end(): Promise<void>;
  /** Starts it again on the same port. */
  start(): Promise<void>;
}

export interface FleetOptions {
  readonly store: string;
  readonly keys: string;
  /** A file that gets a line for each effect. */
  readonly log: string;
  readonly durability?: 'replicated' | undefined;
  /** What to put before the command, so that the instances see a disk of their own. */
  readonly within?: readonly string[];
  /** The balancer. @defaultValue nginx, as in `examples/` */
  readonly behind?: typeof startDocumentedNginx;
}

export interface Fleet {
  readonly url: URL;
  /** Those of the instances, without the balancer. */
  readonly urls: readonly URL[];
  readonly instances: readonly Instance[];
  /** The keys with which instances start from now on. */
  useKeys(keys: string): void;
  /** What the instances have said. */
  said(): string;
  stop(): Promise<void>;
}

/** Three processes of one server, run from the built package, behind nginx. Calls of the store wait for 2 seconds. */
export async function startFleet({
  store,
  keys,
  log,
  durability,
  within = [],
  behind = startDocumentedNginx,
}: FleetOptions): Promise<Fleet> {
  await build();
  let said = '';
  let current = keys;
  const ports = [await freePort(), await freePort(), await freePort()];
  const instances = ports.map((port): Instance => {
    const brief = JSON.stringify({ port, store, timeout: '2s', durability, log });
    const [command = '', ...args] = [...within, process.execPath, SERVER, brief];
    let child: ReturnType<typeof launch>;
    const launch = () => {
      const started = spawn(command, args, {
        env: { ...process.env, VALISE_KEYS: current },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      started.stderr
        .setEncoding('utf8')
        .on('data', (chunk: string) => (said = (said + chunk).slice(-100_000)));
      return started;
    };
    const end = async (signal: NodeJS.Signals): Promise<void> => {
      if (!child || child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'close');
      child.kill(signal);
      await gone;
    };
    return {
      signal: (name) => void child.kill(name),
      kill: () => end('SIGKILL'),
      end: () => end('SIGTERM'),
      async start() {
        child = launch();
        const gone = once(child, 'close').then(() => {
          throw new Error(`An instance ended: ${said}`);
        });
        gone.catch(() => {});
        await Promise.race([once(child.stdout, 'data'), gone]);
      },
    };
  });
  const stopInstances = async () => void (await Promise.all(instances.map((instance) => instance.kill())));
  try {
    await Promise.all(instances.map((instance) => instance.start()));
    const balancer = await behind({ upstreams: ports.map((port) => `127.0.0.1:${port}`) });
    return {
      url: new URL('/mcp', balancer.url),
      urls: ports.map((port) => new URL(`http://127.0.0.1:${port}/mcp`)),
      instances,
      useKeys: (next) => {
        current = next;
      },
      said: () => said,
      async stop() {
        await stopInstances();
        await balancer.stop();
      },
    };
  } catch (error) {
    await stopInstances();
    throw error;
  }
}
