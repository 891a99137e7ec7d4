import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateKey } from 'mcp-valise/seal';
import { afterEach, describe, expect, it } from 'vitest';
import { service, startNginx } from '../services.ts';
import { type Running, startHttp } from './example.ts';

const SOAK = process.env['VALISE_SOAK'] === '1';
const FLOWS = SOAK ? 1000 : 60;
const AT_ONCE = 8;
/** Between two kills, in milliseconds. */
const KILLS = SOAK ? 400 : 500;
const timeout = SOAK ? 1_200_000 : 150_000;

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Processes behind nginx, one of which is killed every now and then and started again. */
async function cluster(sdk: 'v1' | 'v2', store: string, log: string) {
  const env = { VALISE_KEYS: generateKey() };
  const args = ['--sdk', sdk, '--stateless', '--store', store, '--log', log];
  const instances: (Running & { readonly url: URL })[] = await Promise.all(
    [0, 1, 2].map(() => startHttp('ledger', args, env)),
  );
  const nginx = await startNginx({ upstreams: instances.map(({ url }) => url.href) });
  let kills = 0;
  let over = false;
  const killing = (async () => {
    while (!over) {
      await pause(KILLS * (0.5 + Math.random()));
      const at = Math.floor(Math.random() * instances.length);
      const killed = instances[at] as Running & { readonly url: URL };
      await killed.stop('SIGKILL');
      kills++;
      // On the port that nginx knows: the later option counts.
      instances[at] = await startHttp('ledger', [...args, '--http', killed.url.port], env);
    }
  })();
  ends.push(async () => {
    over = true;
    await killing;
    await Promise.all(instances.map((instance) => instance.stop('SIGKILL')));
    await nginx.stop();
  });
  return { url: new URL('/mcp', nginx.url), kills: () => kills };
}

const CAPABILITIES = {
  elicitation: {},
  extensions: { 'dev.valise/rounds': { carriers: ['dependent-shared'] } },
};

/** The messages of a call and its retries, in the form of each era. */
const FORMS = {
  modern: (params: object, id: number, state?: string, keys: readonly string[] = []) => ({
    headers: { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'order' },
    body: {
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: {
        ...params,
        ...(state !== undefined && {
          requestState: state,
          inputResponses: Object.fromEntries(
            keys.map((key) => [key, { action: 'accept', content: { go: true } }]),
          ),
        }),
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
          'io.modelcontextprotocol/clientCapabilities': CAPABILITIES,
        },
      },
    },
  }),
  legacy: (params: object, id: number, state?: string) => ({
    headers: { 'mcp-protocol-version': '2025-11-25' },
    body: {
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: {
        ...params,
        _meta: { 'dev.valise/client': { protocolVersion: '2025-11-25', capabilities: CAPABILITIES } },
      },
      ...(state !== undefined && {
        dependent_responses: { state, responses: [{ result: { action: 'accept', content: { go: true } } }] },
      }),
    },
  }),
};

interface Answer {
  readonly result?: {
    readonly resultType?: string;
    readonly requestState?: string;
    readonly inputRequests?: object;
    readonly content?: readonly { readonly text: string }[];
  };
  readonly error?: { readonly message: string };
  readonly dependent_requests?: { readonly state: string };
}

/** Makes a call and answers its rounds; what was not answered by the server is sent again, as it was. */
async function play(url: URL, era: 'modern' | 'legacy', n: number, counts: { retries: number }) {
  const params = { name: 'order', arguments: { n, cutOff: n % 2 === 0 ? 'fail' : 'retry' } };
  let state: string | undefined;
  let keys: string[] = [];
  for (let id = 1; ; id++) {
    const { headers, body } = FORMS[era](params, id, state, keys);
    let response: Answer;
    try {
      const http = await fetch(url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          ...headers,
        },
        body: JSON.stringify(body),
      });
      if (http.status >= 500) throw new Error(String(http.status));
      const text = await http.text();
      response = JSON.parse(/^data: (.*)$/m.exec(text)?.[1] ?? text);
    } catch {
      counts.retries++;
      await pause(30);
      continue;
    }
    if (response.dependent_requests) state = response.dependent_requests.state;
    else if (response.result?.resultType === 'input_required') {
      state = response.result.requestState;
      keys = Object.keys(response.result.inputRequests ?? {});
    } else return response;
  }
}

describe.each([
  { sdk: 'v2', era: 'modern', kind: 'redis' },
  { sdk: 'v1', era: 'legacy', kind: 'sqlite' },
] as const)('$sdk instances that are killed at random, with a $kind store', ({ sdk, era, kind }) => {
  it(
    `[R-12] every flow completes or reports an interrupted effect, and none completes twice (${FLOWS} flows)`,
    async (context) => {
      const folder = mkdtempSync(join(tmpdir(), 'valise-kills-'));
      ends.push(async () => rmSync(folder, { recursive: true, force: true }));
      const redis = kind === 'redis' ? await service('redis') : undefined;
      if (kind === 'redis' && !redis) {
        context.task.meta.skipReason = 'needs Redis';
        return context.skip();
      }
      const store = redis ?? `sqlite:${folder}/state.db`;
      const log = join(folder, 'effects.log');
      const { url, kills } = await cluster(sdk, store, log);
      const counts = { retries: 0, completed: 0, cutOff: 0 };
      const other: unknown[] = [];
      let next = 0;
      const worker = async (): Promise<void> => {
        // A quick machine makes more of them, until it has met a kill.
        while (next < FLOWS || kills() === 0) {
          const n = next++;
          const { result, error } = await play(url, era, n, counts);
          const text = result?.content?.[0]?.text ?? '';
          if (text.startsWith(`${n} `)) counts.completed++;
          else if (/^The effect "(charge|ship)" was cut off in the middle/.test(text) && n % 2 === 0)
            counts.cutOff++;
          else other.push(error ?? result);
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, worker));
      process.stdout.write(`flows ${next}, kills ${kills()}, ${JSON.stringify(counts)}\n`);
      expect(kills()).toBeGreaterThan(0);
      expect(other).toEqual([]);
      expect(counts.completed + counts.cutOff).toBe(next);

      const lines = readFileSync(log, 'utf8')
        .trim()
        .split('\n')
        .map((line) => line.split(' '));
      // Every run of a handler got one and the same value from one effect: it was completed once.
      const values = new Map<string, Set<string>>();
      for (const [what, key, value] of lines) {
        if (what === 'got') values.set(key!, (values.get(key!) ?? new Set()).add(value!));
      }
      expect([...values].filter(([, seen]) => seen.size !== 1)).toEqual([]);
      // And no attempt was made twice: a second one knows that it is the second.
      const attempts = lines
        .filter(([what]) => what === 'start')
        .map(([, key, attempt]) => `${key} ${attempt}`);
      expect(new Set(attempts).size).toBe(attempts.length);
    },
    timeout,
  );
});
