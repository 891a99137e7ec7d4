import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { build } from '../../scripts/prepare.mjs';
import { root } from '../house/sources.ts';
import { type Service, startNginx } from '../services.ts';

/** Instances of one server behind a balancer, which die and come back. */
export interface Fleet {
  readonly url: URL;
  /** How many have been killed so far. */
  readonly kills: () => number;
  /**
   * Kills one instance after another with SIGKILL, and starts each again, until the function returned is called. Only
   * where another one is up: a slow machine gets fewer deaths, not a server that is never there.
   */
  batter(every: number): () => Promise<void>;
  stop(): Promise<void>;
}

interface Instance {
  readonly port: number;
  isUp(): boolean;
  start(): Promise<void>;
  kill(): Promise<void>;
}

export async function startFleet(
  size: number,
  args: readonly string[],
  env: Record<string, string>,
): Promise<Fleet> {
  // As people run it, and quick to come back.
  await build();
  const ports = await freePorts(size);
  const instances = ports.map((port) => instance(port, args, env));
  await Promise.all(instances.map((each) => each.start()));
  const nginx: Service = await startNginx({ upstreams: ports.map((port) => `127.0.0.1:${port}`) });
  let kills = 0;
  return {
    url: new URL(`${nginx.url}/mcp`),
    kills: () => kills,
    batter(every) {
      let next = 0;
      const coming = new Set<Promise<void>>();
      const strike = (): void => {
        const one = instances[next % instances.length] as Instance;
        if (!one.isUp() || instances.filter((each) => each.isUp()).length < 2) return;
        next++;
        kills++;
        coming.add(one.kill().then(() => one.start()));
      };
      // The first one soon, so that a short run meets it too.
      const first = setTimeout(strike, every / 10);
      const timer = setInterval(strike, every);
      return async () => {
        clearTimeout(first);
        clearInterval(timer);
        await Promise.all(coming);
      };
    },
    async stop() {
      await Promise.all(instances.map((each) => each.kill()));
      await nginx.stop();
    },
  };
}

function instance(port: number, args: readonly string[], env: Record<string, string>): Instance {
  let kill = async (): Promise<void> => {};
  let coming: Promise<void> = Promise.resolve();
  let up = false;
  return {
    port,
    isUp: () => up,
    start() {
      coming = (async () => {
        const child = spawn(
          process.execPath,
          [`${root}bin/valise.js`, 'example', 'notebook', '--http', String(port), ...args],
          {
            env: { ...process.env, ...env },
            stdio: ['ignore', 'pipe', 'pipe'],
          },
        );
        const gone = once(child, 'close');
        let said = '';
        child.stderr.on('data', (chunk) => (said += chunk));
        kill = async () => {
          child.kill('SIGKILL');
          await gone;
        };
        await Promise.race([
          once(child.stdout, 'data'),
          gone.then(() => {
            if (said !== '') throw new Error(said);
          }),
        ]);
        up = true;
      })();
      return coming;
    },
    async kill() {
      up = false;
      await coming;
      await kill();
    },
  };
}

async function freePorts(count: number): Promise<number[]> {
  const holders = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(holders.map((holder) => once(holder, 'listening')));
  const ports = holders.map((holder) => (holder.address() as AddressInfo).port);
  await Promise.all(holders.map((holder) => once(holder.close(), 'close')));
  return ports;
}
