import { createInterface } from 'node:readline';
import { PassThrough } from 'node:stream';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioServerTransport as StdioV1 } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StdioServerTransport as StdioV2, serveStdio } from '@modelcontextprotocol/server/stdio';
import { createValise, type ServerValiseOptions } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { build, keys, type Stock, stockOf } from './carriers-world.ts';

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const FORMS = [
  { form: 'v1', major: 0, serve: 'v1', client: ClientV1 },
  { form: 'v2, 2025-11-25', major: 1, serve: 'v2', client: ClientV1 },
  { form: 'v2, 2026-07-28', major: 1, serve: 'v2', client: ClientV2 },
] as const;

/** A process over stdio, as far as memory goes, and a stock client of it. */
async function start(
  { major, serve, client: Client }: (typeof FORMS)[number],
  options: Partial<ServerValiseOptions> = {},
): Promise<{ host: Stock; warnings: string[] }> {
  const warnings: string[] = [];
  const valise = createValise({
    name: 'test',
    keys,
    sessions: { mode: 'stored' },
    ...options,
    events: { warning: ({ what, next }) => warnings.push(`${what} ${next}`) },
  });
  const [input, output] = [new PassThrough(), new PassThrough()];
  const stdin = valise.stdin(input) as never;
  if (serve === 'v1') await build(valise, major).connect(new StdioV1(stdin, output) as never);
  else serveStdio(() => build(valise, major), { transport: new StdioV2(stdin, output) });
  const lines = createInterface(output);
  const transport = {
    start: async () => void lines.on('line', (line) => transport.onmessage?.(JSON.parse(line) as never)),
    send: async (message: unknown) => void input.write(`${JSON.stringify(message)}\n`),
    close: async () => {
      input.end();
      transport.onclose?.();
    },
    onmessage: undefined as ((message: never) => void) | undefined,
    onclose: undefined as (() => void) | undefined,
  };
  const client = new Client({ name: 'host', version: '1' }, {
    versionNegotiation: { mode: 'auto' },
  } as never) as ClientV2;
  await client.connect(transport as never);
  ends.push(async () => {
    await client.close();
    await valise.close();
  });
  return { host: stockOf(client), warnings };
}

describe.each(FORMS)('a stdio server without a sign-in ($form)', (form) => {
  it('the local user is the principal over stdio, and the next process finds jar and session in the store', async () => {
    const store = memoryStore();
    for (const n of [1, 2]) {
      const { host, warnings } = await start(form, { store });
      expect((await host.call('total')).text).toBe(`total=${n}`);
      expect((await host.call('note')).text).toBe(`notes=${n}`);
      // Session scope ends with the connection.
      expect((await host.call('count')).text).toBe('count=1');
      expect((await host.call('count')).text).toBe('count=2');
      expect(JSON.stringify(await host.tools())).not.toContain('state_handle');
      expect(warnings).toEqual([]);
      await host.close();
    }
  });

  it('a stdio server without a store keeps state in the memory of the process, and warns once', async () => {
    const { host, warnings } = await start(form, { sessions: {} });
    for (const n of [1, 2]) {
      expect((await host.call('total')).text).toBe(`total=${n}`);
      expect((await host.call('count')).text).toBe(`count=${n}`);
      expect((await host.call('note')).text).toBe(`notes=${n}`);
    }
    expect(warnings).toEqual([expect.stringMatching(/no store.*memory of this process/)]);
  });

  it('the author may make the stdio user anonymous or name another principal', async () => {
    const store = memoryStore();
    const named = await start(form, { store, principal: () => ({ subject: 'ann' }) });
    expect((await named.host.call('total')).text).toBe('total=1');
    const local = await start(form, { store, principal: () => undefined });
    expect((await local.host.call('total')).text).toBe('total=1');
    for (const _ of [1, 2]) {
      const { host } = await start(form, { store, principal: () => null });
      expect((await host.call('total')).text).toBe('total=1');
      expect((await host.call('note')).text).toBe('notes=1');
    }
  });

  it('a question that the stdio host cannot ask is an error, or goes through the model with fallback: tool', async () => {
    const { host } = await start(form);
    const said = await host.call('greet').then(
      ({ text }) => text,
      (error: unknown) => String(error),
    );
    expect(said).toMatch(/capability/);
    const { host: other } = await start(form, { flows: { fallback: 'tool' }, sessions: {} });
    const question = /question "([\w-]+)"/.exec((await other.call('greet')).text)?.[1];
    await other.call('answer_question', { question, answer: 'Ada' });
    expect((await other.call('greet')).text).toContain('Which size?');
  });
});
