import { mkdtempSync, rmSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateKey } from 'mcp-valise/seal';
import { createValise } from 'mcp-valise/server';
import { memoryStore, openStore, type Store } from 'mcp-valise/store';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { service, uniqueName } from '../services.ts';
import { accept, type Wire } from './flow-peer.ts';
import { CARRIERS, call, endServers, FORMS, HEADERS, initialize, listen, post, slow } from './http-stage.ts';

const redis = await service('redis');
const folder = mkdtempSync(join(tmpdir(), 'valise-hang-up-'));
const stores: Store[] = [];

afterEach(async () => {
  endServers();
  slow.work = async () => {};
  for (const store of stores.splice(0)) await store.close();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const STORES: [string, () => Promise<Store>][] = [
  ['a memory store', async () => memoryStore()],
  ['SQLite', () => openStore(`sqlite:${folder}/${uniqueName()}.db`)],
  ...(redis
    ? [['Redis', () => openStore(`${redis}?namespace=${uniqueName()}`)] as [string, () => Promise<Store>]]
    : []),
];

const MODERN = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
};

/** Ways to be asked: how the question comes, how it is answered, and what a client is told of an answer. */
const WAYS = {
  'state, before 2026-07-28': { extensions: CARRIERS, modern: false },
  'the id of the question, before 2026-07-28': { extensions: undefined, modern: false },
  'requestState, on 2026-07-28': { extensions: undefined, modern: true },
} as const;

/** Sends a message, and hangs up as soon as `hasRun` says so. */
async function hangUp(url: URL, message: object, headers: Record<string, string>, hasRun: () => boolean) {
  const request = httpRequest(url, { method: 'POST', headers: { ...HEADERS, ...headers } });
  const closed = new Promise<void>((resolve) => request.once('close', resolve));
  request.on('error', () => {});
  request.end(JSON.stringify(message));
  await vi.waitFor(() => expect(hasRun()).toBe(true));
  request.destroy();
  await closed;
}

describe.each(STORES)('a client that hangs up before the result is sent, with %s', (_, open) => {
  describe.each(Object.entries(FORMS))('server: %s', (form, serve) => {
    const ways = Object.entries(WAYS).filter(([, { modern }]) => !modern || form.startsWith('v2'));

    it.each(ways)(
      '[R-16] a client that hung up cannot answer again with another answer, and gets the outcome of its first answer (%s)',
      async (_way, { extensions, modern }) => {
        const store = await open();
        stores.push(store);
        const valise = createValise({ name: 'test', keys: generateKey(), store });
        const url = await listen(serve(valise));
        const made = modern
          ? undefined
          : await post(url, initialize({ elicitation: {}, ...(extensions && { extensions }) }));
        const headers: Record<string, string> = modern
          ? { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'slow' }
          : {
              'mcp-protocol-version': '2025-11-25',
              'mcp-session-id': made?.headers.get('mcp-session-id') as string,
            };
        const first = modern
          ? { ...call('slow'), params: { ...call('slow').params, _meta: MODERN } }
          : call('slow');
        const response = await fetch(url, {
          method: 'POST',
          headers: { ...HEADERS, ...headers },
          body: JSON.stringify(first),
        });
        const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
        const next = async () => (await reader.read()).value ?? '';
        const asked = await next();
        const question = JSON.parse(/^data: (.+)$/m.exec(asked)?.[1] ?? asked) as Wire;
        const answerWith = (name: string): object =>
          modern
            ? {
                ...first,
                params: {
                  ...first.params,
                  requestState: question.result.requestState,
                  inputResponses: { a: accept({ name }) },
                },
              }
            : {
                jsonrpc: '2.0',
                id: question.id,
                ...(question.state && { state: question.state }),
                result: accept({ name }),
              };

        const ran: unknown[] = [];
        let release = (): void => {};
        const gate = new Promise<void>((resolve) => {
          release = resolve;
        });
        slow.work = async (who) => {
          ran.push(who);
          await gate;
        };
        await hangUp(url, answerWith('Ada'), headers, () => ran.length === 1);
        release();

        const refused = await post(url, answerWith('Eve'), headers);
        expect(refused.message.error).toMatchObject({ code: -32602 });
        expect(ran).not.toContain('Eve');

        const again = await post(url, answerWith('Ada'), headers);
        const byMail = !modern && !extensions;
        if (byMail) expect(again.status).toBe(202);
        expect(byMail ? await next() : again.body).toContain('hello Ada');
        const runs = ran.length;
        // Repeating either changes nothing any more.
        expect((await post(url, answerWith('Eve'), headers)).message.error).toMatchObject({ code: -32602 });
        const last = await post(url, answerWith('Ada'), headers);
        if (!byMail) expect(last.body).toContain('hello Ada');
        expect(ran).toHaveLength(runs);
        expect(new Set(ran)).toEqual(new Set(['Ada']));
      },
    );
  });
});
