import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage, request as open } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { openStore, type Store } from 'mcp-valise/store';
import { describe, expect, it, onTestFinished } from 'vitest';
import { service, uniqueName } from '../services.ts';
import { because } from '../skip.ts';
import { temporaryFolder, tsx } from '../store/places.ts';
import { type Outcomes, runSuite, whyNot } from './suite.ts';

const why = await whyNot();
const module = new URL('./instance.ts', import.meta.url).pathname;
const TIMEOUT = 120_000;

interface Instance {
  readonly port: number;
  readonly child: ChildProcess;
  kill(): Promise<void>;
}

async function startInstance(sdk: string, store: string, bus: string): Promise<Instance> {
  const child = spawn(process.execPath, [...tsx, module, sdk, store, bus], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [port] = (await once(child.stdout, 'data')) as [Buffer];
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  };
  return { port: Number(String(port)), child, kill };
}

interface Asked {
  readonly request: IncomingMessage;
  readonly body: Buffer;
}

/** A balancer that lets a test choose the instance of each request. */
async function balance(choose: (asked: Asked) => Promise<Instance> | Instance): Promise<string> {
  const server = createServer(async (request, response) => {
    const body = await buffer(request);
    const { port } = await choose({ request, body });
    const { method, headers, url: path } = request;
    const onward = open({ host: '127.0.0.1', port, method, headers, path }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
      answer.on('error', () => response.destroy());
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    onward.end(body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
}

/** The checks of a run that did not succeed. */
function failedIn(outcomes: Outcomes): readonly string[] {
  return [...outcomes.values()].flat().filter((outcome) => !outcome.endsWith(': SUCCESS'));
}

async function contents(store: Store): Promise<string> {
  const { keys } = await store.list('');
  return JSON.stringify(await Promise.all(keys.map((key) => store.get(key))));
}

describe.skipIf(why)(
  'the official scenarios on two instances, one of them killed',
  because(why ?? ''),
  () => {
    it.each(['v1', 'v2'] as const)(
      'In server-sse-polling, eventStore resumes at the other instance (SDK %s)',
      {
        timeout: TIMEOUT,
      },
      async (sdk) => {
        const { folder, remove } = temporaryFolder();
        onTestFinished(remove);
        const url = `sqlite:${join(folder, 'state.db')}`;
        const store = await openStore(url);
        onTestFinished(() => store.close());
        const [first, second] = [
          await startInstance(sdk, url, 'memory:'),
          await startInstance(sdk, url, 'memory:'),
        ];
        let resumed = 0;
        const address = await balance(async ({ request }) => {
          if (request.headers['last-event-id'] !== undefined) {
            resumed++;
            // The first instance has done its work, but the client did not get it.
            await expect.poll(() => contents(store), { timeout: 10_000 }).toContain('Whoever reads this');
            await first.kill();
          }
          return first.child.signalCode === null ? first : second;
        });
        const outcomes = await runSuite('conformance-next', [
          'server',
          '--url',
          address,
          '--scenario',
          'server-sse-polling',
          '--spec-version',
          '2025-11-25',
        ]);
        expect(failedIn(outcomes)).toEqual([]);
        expect(outcomes.get('server-sse-polling')).not.toEqual([]);
        expect(resumed).toBeGreaterThan(0);
        expect(first.child.signalCode).toBe('SIGKILL');
      },
    );

    it('In server-stateless, eventBus delivers the messages of one instance to a listener at the other', {
      timeout: TIMEOUT,
    }, async () => {
      const redis = (await service('redis')) ?? '';
      const { folder, remove } = temporaryFolder();
      onTestFinished(remove);
      const url = `sqlite:${join(folder, `${uniqueName()}.db`)}`;
      const make = () => startInstance('v2', url, redis);
      const [listening, other, third] = [await make(), await make(), await make()];
      let listeners = 0;
      let said = 0;
      const address = await balance(async ({ body }) => {
        const text = String(body);
        if (text.includes('"subscriptions/listen"')) {
          listeners++;
          return listening;
        }
        // What it has said so far must have arrived at the listener, and nothing else is lost with it.
        if (said > 0) {
          await other.kill();
          return third;
        }
        if (text.includes('test_trigger_')) said++;
        return other;
      });
      const args = ['--scenario', 'server-stateless', '--spec-version', '2026-07-28'];
      const outcomes = await runSuite('conformance-next', ['server', '--url', address, ...args]);
      expect(failedIn(outcomes)).toEqual([]);
      expect(outcomes.get('server-stateless')?.filter((one) => /listen|subscri/.test(one))).not.toEqual([]);
      expect(listeners).toBeGreaterThan(0);
      expect(said).toBe(1);
      expect(other.child.signalCode).toBe('SIGKILL');
    });
  },
);
