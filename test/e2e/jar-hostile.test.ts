import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { type ClientValise, openValise } from 'mcp-valise/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type HostileServers, openHostile } from './hostile-server.ts';

const SESSION = 'modelcontextprotocol.io/state/session';
const SERVER = 'modelcontextprotocol.io/state/server';
const MODERN = 'dev.valise/state';
const ATTRIBUTES = 'dev.valise/state-attributes';
const VICTIM = 'https://victim.example.com/mcp';
const EVIL = 'https://evil.example.net/mcp';
const QUOTAS = { bytesPerKey: 4096, keysPerServer: 20, keys: 300 };

/** The same state in every place where a client may look for it. */
const everywhere = (state: string) =>
  `{"${SESSION}":${state},"${SERVER}":${state},"${MODERN}":{"session":${state},"server":${state}}}`;

describe.each([
  { kind: 'v1 over JSON', Client: ClientV1, Http: HttpV1, how: 'json' as const },
  { kind: 'v1 over events', Client: ClientV1, Http: HttpV1, how: 'sse' as const },
  { kind: 'v2 over JSON', Client: ClientV2, Http: HttpV2, how: 'json' as const },
  { kind: 'v2 over events', Client: ClientV2, Http: HttpV2, how: 'sse' as const },
])('a client with a jar at a hostile server, $kind', ({ Client, Http, how }) => {
  let folder: string;
  let servers: HostileServers;
  let valise: ClientValise;
  let refused: Map<string, number>;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'valise-hostile-'));
    servers = await openHostile(how);
    valise = await openValise({ store: `sqlite:${join(folder, 'state.db')}`, quotas: QUOTAS });
    refused = new Map();
    valise.jar.on('refused', ({ reason }) => refused.set(reason, (refused.get(reason) ?? 0) + 1));
    // Somebody honest has been here before.
    servers.attack = () => `{"${SERVER}":{"profile":{"theme":"dark"}}}`;
    await visit(VICTIM);
    servers.received.clear();
  });
  afterEach(async () => {
    await valise.close();
    await servers.close();
    rmSync(folder, { recursive: true });
  });

  /** Connects, calls a tool so many times, and leaves; every call must bring its own result. */
  async function visit(url: string, times = 1): Promise<void> {
    const client = new Client({ name: 'test', version: '1.0.0' }) as ClientV2;
    await valise.connect(client, new Http(new URL(url), { fetch: servers.fetch }));
    for (let at = 0; at < times; at++) {
      const result = await client.callTool({ name: 'attack' });
      expect(result.content).toEqual([{ type: 'text', text: 'the result' }]);
    }
    await client.close();
  }

  /** The jar of a process that opens it now. */
  async function stored() {
    const fresh = await openValise({ store: `sqlite:${join(folder, 'state.db')}` });
    const entries = fresh.jar.list({ values: true });
    await fresh.close();
    return entries;
  }

  async function victimIsUntouched(): Promise<void> {
    const theirs = (await stored()).filter(({ server }) => server === 'victim.example.com');
    expect(theirs).toMatchObject([{ key: 'profile', value: { theme: 'dark' } }]);
    servers.attack = () => '{}';
    await visit(VICTIM);
    const sent = servers.received.get('victim.example.com') ?? [];
    expect(JSON.parse(sent.at(-1) as string).params._meta).toEqual({
      [SERVER]: { profile: { theme: 'dark' } },
    });
  }

  async function evilHas(): Promise<unknown[]> {
    return (await stored()).filter(({ server }) => server !== 'victim.example.com');
  }

  it('[J-18][J-25] a client refuses state of 10 MB and stays intact', async () => {
    servers.attack = () =>
      everywhere(`{"big":${JSON.stringify('x'.repeat(10_000_000))},"list":[${'1,'.repeat(2_000_000)}1]}`);
    await visit(EVIL, 2);
    expect(refused).toEqual(new Map([['too-large', 8]]));
    expect(await evilHas()).toEqual([]);
    expect(servers.received.get('evil.example.net')?.every((body) => body.length < 2000)).toBe(true);
    await victimIsUntouched();
  });

  it('[J-18][J-25] a client keeps 20 of 100,000 keys and stays intact', async () => {
    const keys = Array.from({ length: 100_000 }, (_, at) => `"k${at}":${at}`).join(',');
    servers.attack = () => everywhere(`{${keys}}`);
    await visit(EVIL, 2);
    expect([...refused.keys()]).toEqual(['too-many']);
    servers.attack = (_, call) =>
      everywhere(`{${Array.from({ length: 9000 }, (_, at) => `"k${call} ${at}":${at}`).join(',')}}`);
    await visit(EVIL, 3);
    expect(await evilHas()).toHaveLength(20);
    expect(servers.received.get('evil.example.net')?.every((body) => body.length < 5000)).toBe(true);
    await victimIsUntouched();
  });

  it('[J-25] keys such as __proto__ pollute no prototype and come back unchanged', async () => {
    const names = [
      '__proto__',
      'constructor',
      'prototype',
      'hasOwnProperty',
      'toString',
      'toJSON',
      'then',
      '',
    ];
    const state = `{${names.map((name) => `"${name}":{"polluted":true}`).join(',')}}`;
    servers.attack = () => `{"__proto__":{"polluted":true},${everywhere(state).slice(1)}`;
    await visit(EVIL, 2);
    expect(({} as { polluted?: true }).polluted).toBeUndefined();
    expect(Object.keys(Object.prototype)).toEqual([]);
    const last = servers.received.get('evil.example.net')?.at(-1) as string;
    const sent = /"modelcontextprotocol.io\/state\/server":(\{.*?\}\})/.exec(last)?.[1] as string;
    for (const name of names) expect(sent).toContain(`"${name}":{"polluted":true}`);
    expect((await evilHas()).map((entry) => (entry as { key: string }).key).sort()).toEqual(
      [...names].sort(),
    );
    servers.attack = () => everywhere(`{${names.map((name) => `"${name}":null`).join(',')}}`);
    await visit(EVIL);
    expect(await evilHas()).toEqual([]);
    await victimIsUntouched();
  });

  it('[J-25] a client refuses deeply nested state', async () => {
    for (const depth of [65, 1000, 5000]) {
      servers.attack = () =>
        everywhere(
          `{"deep":${'['.repeat(depth)}${']'.repeat(depth)},"also":${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}}`,
        );
      await visit(EVIL, 2);
    }
    expect([...refused.keys()]).toEqual(['too-deep']);
    expect(await evilHas()).toEqual([]);
    await victimIsUntouched();
  });

  it('[J-25] numbers outside the range of a double come back unchanged', async () => {
    servers.attack = () => everywhere('{"huge":1e400,"small":-1e400,"fine":1e300}');
    await visit(EVIL, 2);
    expect(await evilHas()).toMatchObject([{ key: 'fine', value: 1e300 }, { key: 'huge' }, { key: 'small' }]);
    expect([...refused.keys()]).toEqual([]);
    const sent = servers.received.get('evil.example.net') ?? [];
    expect(sent.at(-1)).not.toContain('null');
    expect(sent.at(-1)).toContain('"huge":1e400,"small":-1e400,"fine":1e300');
    await victimIsUntouched();
  });

  it('[J-25] a client refuses values of wrong types in every position', async () => {
    const wrong = ['null', '7', '"text"', 'true', '[]', '[{"a":1}]', '{}', '{"a":null}'];
    for (const one of wrong) {
      for (const meta of [
        everywhere(one),
        `{"${MODERN}":${one},"${ATTRIBUTES}":${one}}`,
        `{"${SERVER}":{"a":1},"${ATTRIBUTES}":{"server":${one}}}`,
        `{"${SERVER}":{"a":1},"${ATTRIBUTES}":{"server":{"a":${one}}}}`,
        `{"${SERVER}":{"a":1},"${ATTRIBUTES}":{"server":{"a":{"max-age":${one},"method-scope":${one},"server-scope":${one}}}}}`,
      ]) {
        servers.attack = () => meta;
        await visit(EVIL);
      }
    }
    expect([...refused.keys()].sort()).toEqual(['wrong-type']);
    await victimIsUntouched();
  });

  it('[J-13][J-20] a server cannot set or read the state of another server', async () => {
    const scopes = [
      'victim.example.com',
      '.victim.example.com',
      'example.com',
      'com',
      'net',
      '.',
      '',
      'localhost',
      '127.0.0.1',
      'EVIL.example.net.victim.example.com',
      '*',
    ];
    for (const scope of scopes) {
      servers.attack = () =>
        `{"${SERVER}":{"profile":"stolen"},"${ATTRIBUTES}":{"server":{"profile":{"server-scope":${JSON.stringify(scope)}}}},"victim.example.com":{"${SERVER}":{"profile":"stolen"}}}`;
      await visit(EVIL);
    }
    expect([...refused.keys()].sort()).toEqual(['bad-value', 'server-scope']);
    expect(await evilHas()).toEqual([]);
    expect([...(servers.received.get('evil.example.net') ?? [])].some((body) => body.includes('dark'))).toBe(
      false,
    );
    await victimIsUntouched();
  });

  // A thousand connections say the same however their answers are framed.
  if (how === 'json') {
    it('[J-18] 1,000 servers that fill the jar evict no state of the victim', {
      timeout: 120_000,
    }, async () => {
      servers.attack = () =>
        everywhere(`{${Array.from({ length: 25 }, (_, at) => `"k${at}":${at}`).join(',')}}`);
      let evicted = 0;
      valise.jar.on('evicted', () => evicted++);
      for (let at = 0; at < 1000; at += 20) {
        await Promise.all(
          Array.from({ length: 20 }, (_, one) => visit(`https://s${at + one}.hostile.org/mcp`)),
        );
      }
      expect(valise.jar.list().length).toBe(300);
      expect(evicted).toBeGreaterThan(20_000 - 300);
      expect(await stored()).toHaveLength(300);
      await victimIsUntouched();
    });
  }
});
