import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, request as forward } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { openValise } from 'mcp-valise/client';
import { generateKey } from 'mcp-valise/seal';
import { memoryStore } from 'mcp-valise/store';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { build } from '../../scripts/prepare.mjs';
import { KINDS, type Kind } from '../client/hosts.ts';
import { temporaryFolder } from '../store/places.ts';

const SERVER = fileURLToPath(new URL('./idempotency-server.mjs', import.meta.url));
const KEY = 'dev.valise/idempotencyKey';
const env = { ...process.env, VALISE_KEYS: generateKey() };

const cleanUp: (() => unknown)[] = [];
beforeAll(() => build(), 120_000);
afterAll(async () => {
  for (const step of cleanUp.splice(0).reverse()) await step();
});

interface Till {
  readonly brief: { readonly store: string; readonly log: string };
  /** How often the effect of a tag was done. */
  effects(tag: string): number;
  /** Lets a call go on that waits. */
  go(tag: string): void;
}

function till(): Till {
  const { folder, remove } = temporaryFolder();
  cleanUp.push(remove);
  const log = join(folder, 'effects');
  writeFileSync(log, '');
  return {
    brief: { store: `sqlite:${join(folder, 'state.db')}`, log },
    effects: (tag) =>
      readFileSync(log, 'utf8')
        .split('\n')
        .filter((line) => line === tag).length,
    go: (tag) => writeFileSync(`${log}.${tag}.go`, ''),
  };
}

/** Two processes behind a balancer that takes turns, passes over those that are gone, and can fail in several ways. */
async function fleet({ brief }: Till, major: 'v1' | 'v2') {
  const start = async (): Promise<[ChildProcess, number]> => {
    const child = spawn(process.execPath, [SERVER, JSON.stringify({ ...brief, major })], {
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    cleanUp.push(() => void child.kill('SIGKILL'));
    const [port] = (await once(child.stdout as NonNullable<typeof child.stdout>, 'data')) as [Buffer];
    return [child, Number(port)];
  };
  const instances = await Promise.all([start(), start()]);
  const pids = instances.map(([{ pid }]) => pid);
  let turn = 0;
  /**
   * What happens to the next calls of tools. Their answer is lost, or replaced by 502 or 504; their connection is cut, or the
   * balancer gives up with 504, while they run; or nobody is there.
   */
  const failures: (
    | 'answer-lost'
    | 'answered-502'
    | 'answered-504'
    | 'cut'
    | 'given-up-504'
    | 'status-503'
    | 'refused'
  )[] = [];
  const seen: { key: unknown; port: number | undefined }[] = [];
  let cut = (): void => {};
  const http = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const isCall = body.includes('"tools/call"');
    const failure = isCall ? failures.shift() : undefined;
    const alive = instances.filter(([child]) => child.signalCode === null && child.exitCode === null);
    const port = alive[turn++ % alive.length]?.[1];
    if (isCall) seen.push({ key: JSON.parse(body.toString()).params._meta?.[KEY], port });
    if (failure === 'status-503') return void response.writeHead(503).end('no instance');
    if (failure === 'refused') return void response.destroy();
    if (failure === 'cut') cut = () => void response.destroy();
    if (failure === 'given-up-504') cut = () => void response.writeHead(504).end('gateway timeout');
    const status = /^answered-(\d+)$/.exec(failure ?? '')?.[1];
    const { method, url: path, headers } = request;
    const upstream = forward({ host: '127.0.0.1', port, method, path, headers }, (answer) => {
      // The whole answer is there, and nobody gets it.
      if (failure === 'answer-lost') return void answer.resume().on('end', () => response.destroy());
      if (status)
        return void answer.resume().on('end', () => response.writeHead(Number(status)).end('bad gateway'));
      if (failure === 'given-up-504') return void answer.resume();
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
      answer.on('aborted', () => response.destroy());
    });
    upstream.on('error', () => {
      if (response.headersSent) response.destroy();
      else response.writeHead(502).end('bad gateway');
    });
    response.on('close', () => upstream.destroy());
    upstream.end(body);
  }).listen(0, '127.0.0.1');
  await once(http, 'listening');
  cleanUp.push(() => {
    http.closeAllConnections();
    http.close();
  });
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`;
  return { url, failures, seen, pids, cut: () => cut() };
}

function clientOf(kind: Kind): ClientV2 {
  const info = { name: 'customer', version: '1.0.0' };
  if (kind.major === 'v1') return new ClientV1(info) as unknown as ClientV2;
  const mode = kind.era === 'modern' ? { pin: '2026-07-28' } : ('legacy' as const);
  return new ClientV2(info, { versionNegotiation: { mode } });
}

async function connected(kind: Kind, url: string): Promise<ClientV2> {
  const valise = await openValise({ store: memoryStore() });
  const client = clientOf(kind);
  await valise.connect(client, url);
  cleanUp.push(async () => {
    await client.close();
    await valise.close();
  });
  return client;
}

const call = (client: ClientV2, name: string, tag: string, next?: string) =>
  client.callTool({ name, arguments: { tag, ...(next && { next }) } }) as Promise<{
    content: { text: string }[];
  }>;

/** Calls a tool with options, which are the second argument in SDK 2 and the third in SDK 1. */
function callTool(kind: Kind, client: ClientV2, args: object, options: object): Promise<unknown> {
  const rest = kind.major === 'v1' ? [undefined, options] : [options];
  return (client.callTool as (...all: unknown[]) => Promise<unknown>).call(client, args, ...rest);
}

interface World extends Awaited<ReturnType<typeof fleet>> {
  readonly own: Till;
  readonly client: ClientV2;
}

/** A client of two instances behind a balancer. */
async function world(kind: Kind): Promise<World> {
  const own = till();
  const behind = await fleet(own, kind.major);
  return { own, ...behind, client: await connected(kind, behind.url) };
}

/** A client of a stdio server, which can be started again on the same store. */
async function stdio(kind: Kind, own: Till) {
  const valise = await openValise({ store: memoryStore() });
  const client = clientOf(kind);
  const args = [SERVER, JSON.stringify({ ...own.brief, major: 'v1', stdio: true })];
  await valise.connect(client, { command: process.execPath, args, env: env as never });
  const close = async () => {
    await client.close();
    await valise.close();
  };
  cleanUp.push(close);
  const repeat = (tag: string, key: string, next?: string) =>
    client.callTool({ name: 'charge', arguments: { tag, ...(next && { next }) }, _meta: { [KEY]: key } });
  return { repeat, close };
}

const UNKNOWN = {
  message: expect.stringContaining('does not know whether it took effect'),
  data: { code: 'outcome-unknown', 'dev.valise/outcome': 'unknown' },
};

describe.each(KINDS)('A $kind client of two instances behind a balancer', (kind) => {
  let here: World;
  beforeAll(async () => void (here = await world(kind)), 30_000);

  it.each(['answer-lost', 'answered-502', 'answered-504', 'status-503', 'refused'] as const)(
    '[I-09] a client repeats a call at the other instance after %s, and its effect is done once',
    async (failure) => {
      const { own, client, failures, seen, pids } = here;
      seen.length = 0;
      failures.push(failure, failure);
      const { content } = await call(client, 'charge', failure);
      expect(own.effects(failure)).toBe(1);
      expect(pids.map((pid) => `${failure} by ${pid}`)).toContain(content[0]?.text);
      expect(seen).toHaveLength(3);
      expect(new Set(seen.map(({ port }) => port)).size).toBe(2);
      expect(new Set(seen.map(({ key }) => key)).size).toBe(1);
      // Another call is another one, with the same arguments too.
      await call(client, 'charge', failure);
      expect(own.effects(failure)).toBe(2);
    },
  );

  it.each(['cut', 'given-up-504'] as const)(
    '[I-02] a repeated call joins the call that still runs at the other instance after %s',
    async (failure) => {
      const { own, client, failures, seen, cut } = here;
      const tag = `join-${failure}`;
      seen.length = 0;
      failures.push(failure);
      const answer = call(client, 'charge', tag, 'wait');
      await expect.poll(() => own.effects(tag)).toBe(1);
      cut();
      await expect.poll(() => seen.length).toBe(2);
      own.go(tag);
      expect((await answer).content[0]?.text).toContain(`${tag} by `);
      expect(own.effects(tag)).toBe(1);
    },
  );

  it('[I-09] a client does not repeat a call that its caller has canceled', async () => {
    const { own, client, failures, seen } = here;
    seen.length = 0;
    const start = (tag: string) => {
      const controller = new AbortController();
      const args = { name: 'charge', arguments: { tag, next: 'wait' } };
      return { controller, answer: callTool(kind, client, args, { signal: controller.signal }) };
    };
    const running = start('cancelled');
    await expect.poll(() => own.effects('cancelled')).toBe(1);
    running.controller.abort();
    await expect(running.answer).rejects.toThrow();
    own.go('cancelled');
    // This one is cancelled between two repeats.
    failures.push(...Array(6).fill('status-503'));
    const lost = start('never');
    await expect.poll(() => seen.length).toBe(3);
    lost.controller.abort();
    await expect(lost.answer).rejects.toThrow();
    // A later call is repeated after longer pauses. A cancelled one would have been seen again meanwhile.
    failures.splice(0, 6, 'status-503', 'status-503', 'status-503');
    await call(client, 'charge', 'after');
    expect(seen).toHaveLength(7);
    expect(own.effects('cancelled')).toBe(1);
    expect(own.effects('never')).toBe(0);
  });

  it('[I-10] a client does not repeat a call of a tool that is not declared idempotent', async () => {
    const { own, client, failures } = here;
    failures.push('answer-lost');
    await expect(call(client, 'plain', 'd')).rejects.toThrow('broke off before the call was answered');
    expect(own.effects('d')).toBe(1);
  });
});

describe('a call whose process is killed after the effect and before the response', () => {
  // Side by side, since each waits until the lease of the killed process is over.
  it('[I-03] a call whose process was killed has an unknown outcome, behind a balancer and on stdio', async () => {
    const overHttp = KINDS.map(async (kind) => {
      const { own, client, seen } = await world(kind);
      await expect(call(client, 'charge', 'c', 'die')).rejects.toMatchObject(UNKNOWN);
      expect(own.effects('c')).toBe(1);
      expect(seen.length).toBeGreaterThan(1);
    });
    const overStdio = KINDS.slice(0, 2).map(async (kind) => {
      const own = till();
      const key = randomUUID();
      await expect((await stdio(kind, own)).repeat('f', key, 'die')).rejects.toThrow();
      await expect((await stdio(kind, own)).repeat('f', key, 'die')).rejects.toMatchObject(UNKNOWN);
      expect(own.effects('f')).toBe(1);
    });
    await Promise.all([...overHttp, ...overStdio]);
  }, 60_000);

  it.each(KINDS.slice(0, 2))(
    '[I-01] a repeated call gets its recorded result from the next process ($kind, stdio)',
    async (kind) => {
      const own = till();
      const key = randomUUID();
      const first = await stdio(kind, own);
      const { content } = await first.repeat('e', key);
      await first.close();
      expect((await (await stdio(kind, own)).repeat('e', key)).content).toEqual(content);
      expect(own.effects('e')).toBe(1);
    },
    30_000,
  );
});
