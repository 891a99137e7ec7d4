import type { Client } from '@modelcontextprotocol/client';
import { type ClientValise, openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ask, MAJORS, signIn } from '../client/vault.ts';
import { temporaryFolder } from '../store/places.ts';
import { type Running, start } from './example.ts';

let folder: string;
let remove: () => void;
let running: Running[];
let valise: ClientValise;
beforeEach(() => {
  ({ folder, remove } = temporaryFolder());
  running = [];
});
afterEach(async () => {
  await valise?.close();
  for (const one of running)
    if (one.child.exitCode === null && one.child.signalCode === null) await one.stop('SIGTERM');
  remove();
});

/** Starts the vault; the port that it listens on. */
async function serve(args: readonly string[], port = 0): Promise<{ running: Running; port: number }> {
  const one = start('vault', [
    '--http',
    String(port),
    '--with-auth',
    '--store',
    `sqlite:${folder}/vault.db`,
    ...args,
  ]);
  running.push(one);
  const at = await new Promise<number>((resolve, reject) => {
    let out = '';
    one.child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
      out += chunk;
      const found = /^listening on http:\/\/127\.0\.0\.1:(\d+)\/mcp$/m.exec(out);
      if (found) resolve(Number(found[1]));
    });
    one.child.once('close', () => reject(new Error(`The vault ended: ${one.stderr()}`)));
  });
  return { running: one, port: at };
}

const SDKS = [
  { sdk: 'v1', ...MAJORS[0] },
  { sdk: 'v2', ...MAJORS[1] },
] as const;

describe.each(SDKS)('a $sdk server that is killed', ({ sdk, make }) => {
  let sent: string[];
  let pages: number;
  let renewed: string[];

  async function connect(port: number): Promise<Client> {
    sent = [];
    pages = 0;
    renewed = [];
    valise = await openValise({ store: memoryStore() });
    valise.on('renewed', ({ reason }) => renewed.push(reason));
    const client = make();
    const noting = (url: string | URL, init: RequestInit = {}) => {
      if (typeof init.body === 'string' && init.body.includes('"initialize"')) sent.push('initialize');
      return fetch(url, init);
    };
    const redirect = async (page: URL) => {
      pages++;
      await signIn(page);
    };
    await valise.connect(client, `http://127.0.0.1:${port}/mcp`, { fetch: noting, auth: { redirect } });
    client.onerror = () => {};
    return client;
  }

  it('a killed server continues its stored sessions, and the client notices nothing', async () => {
    const one = await serve(['--sdk', sdk]);
    const client = await connect(one.port);
    expect(await ask(client, 'increment')).toBe('1');
    expect(await ask(client, 'whoami')).toBe('tester');
    const before = sent.length;
    await one.running.stop('SIGKILL');
    await expect(ask(client, 'increment')).rejects.toThrow();
    await serve(['--sdk', sdk], one.port);
    expect(await ask(client, 'increment')).toBe('2');
    expect(sent.length).toBe(before);
    expect(pages).toBe(1);
    expect(renewed).toEqual([]);
    await client.close();
  });

  it('[C-05] a killed server that lost its sessions costs exactly one new initialize, and no sign-in', async () => {
    const one = await serve(['--sdk', sdk, '--forget-sessions']);
    const client = await connect(one.port);
    expect(await ask(client, 'increment')).toBe('1');
    const before = sent.length;
    await one.running.stop('SIGKILL');
    await serve(['--sdk', sdk, '--forget-sessions'], one.port);
    expect(await ask(client, 'increment')).toBe('1');
    expect(await ask(client, 'increment')).toBe('2');
    expect(sent.length - before).toBe(1);
    expect(renewed).toEqual(['session-lost']);
    expect(pages).toBe(1);
    await client.close();
  });

  it('a server that is killed during calls loses only those in progress, and none is repeated', async () => {
    const one = await serve(['--sdk', sdk]);
    const client = await connect(one.port);
    const counts: number[] = [];
    const calls = async () => {
      for (;;) counts.push(Number(await ask(client, 'increment')));
    };
    const failing = expect(calls()).rejects.toThrow();
    await expect.poll(() => counts.length).toBeGreaterThan(5);
    await one.running.stop('SIGKILL');
    await failing;
    await serve(['--sdk', sdk], one.port);
    for (let call = 0; call < 5; call++) counts.push(Number(await ask(client, 'increment')));
    expect(new Set(counts).size).toBe(counts.length);
    for (const [at, count] of counts.entries())
      if (at > 0) expect(count - (counts[at - 1] as number)).toBeLessThanOrEqual(2);
    expect(pages).toBe(1);
    expect(renewed).toEqual([]);
    await client.close();
  });
});
