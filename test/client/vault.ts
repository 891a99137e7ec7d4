import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { McpServer } from '@modelcontextprotocol/server';
import type { ClientValise } from 'mcp-valise/client';
import { generateKey } from 'mcp-valise/seal';
import { memoryStore, type Store } from 'mcp-valise/store';
import { afterEach, beforeEach, vi } from 'vitest';
import { example } from '../../examples/vault.ts';

/** What a client has sent, and where to. */
export interface Sent {
  readonly url: URL;
  readonly verb: string;
  /** `grant_type` of a token request, the method of a message, or ''. */
  readonly what: string;
  readonly authorization: string | undefined;
  readonly refreshToken: string | undefined;
  readonly status: number;
}

/** The vault and its authorization server, in this process, behind a `fetch` that notes what is sent. */
export interface Vault {
  readonly url: string;
  readonly store: Store;
  readonly sent: Sent[];
  /** Answers in place of the vault. */
  intercept: (url: URL, init: RequestInit) => Response | undefined | Promise<Response | undefined>;
  readonly fetch: typeof fetch;
  /** What was sent, in short: `initialize`, `tools/call`, `refresh_token`, `register`, `discover`; not the stream. */
  short(): string[];
  /** Destroys the access tokens, or the refresh tokens, as a revocation does; or forgets the clients. */
  revoke(what: 'AccessToken' | 'RefreshToken' | 'Client'): Promise<void>;
  close(): Promise<void>;
}

export async function openVault({ ttl = 3600 }: { ttl?: number } = {}): Promise<Vault> {
  const store = memoryStore();
  process.env['VALISE_KEYS'] ??= generateKey();
  const built = await example.build({
    sdk: 'v2',
    McpServer,
    options: { store, principal: undefined, events: {} },
    flags: { 'with-auth': true, 'token-ttl': String(ttl) },
  });
  const { http } = built;
  if (!http) throw new Error('The vault serves HTTP by itself.');
  const server = createServer(
    (request, response) => void http.answer(request, response).catch(() => response.destroy()),
  ).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const vault: Vault = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    store,
    sent: [],
    intercept: () => undefined,
    async fetch(input, init = {}) {
      const url = new URL(String(input));
      const headers = new Headers(init.headers);
      const response = (await vault.intercept(url, init)) ?? (await fetch(url, init));
      vault.sent.push({
        url,
        verb: init.method ?? 'GET',
        what: whatOf(init),
        authorization: headers.get('authorization') ?? undefined,
        refreshToken:
          init.body instanceof URLSearchParams ? (init.body.get('refresh_token') ?? undefined) : undefined,
        status: response.status,
      });
      return response;
    },
    short: () =>
      vault.sent.flatMap(({ url, verb, what }) => {
        if (url.pathname === '/reg') return ['register'];
        if (url.pathname.startsWith('/.well-known/')) return ['discover'];
        return verb === 'GET' ? [] : [what || verb];
      }),
    async revoke(what) {
      for (const key of (await store.list(`vault/auth/${what}/`)).keys) await store.delete(key);
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await http.close();
      await built.valise.close();
    },
  };
  return vault;
}

function whatOf({ body }: RequestInit): string {
  if (body instanceof URLSearchParams) return body.get('grant_type') ?? '';
  if (typeof body !== 'string' || !body.startsWith('{')) return '';
  return (JSON.parse(body) as { method?: string }).method ?? '';
}

/** A user who signs in without a browser: follows the redirects, with cookies; the last address. */
export async function signIn(
  page: URL,
  { name, until }: { name?: string; until?: string } = {},
): Promise<URL> {
  const cookies = new Map<string, string>();
  let at = new URL(page);
  if (name !== undefined) at.searchParams.set('login_hint', name);
  while (until === undefined || !at.href.startsWith(until)) {
    const cookie = [...cookies].map((pair) => pair.join('=')).join('; ');
    const response = await fetch(at, { redirect: 'manual', headers: { cookie } });
    await response.text();
    for (const line of response.headers.getSetCookie()) {
      const [, key = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      cookies.set(key, value);
    }
    const next = response.headers.get('location');
    if (next === null) return at;
    at = new URL(next, at);
  }
  return at;
}

const info = { name: 'continuity', version: '1.0.0' };

/** Clients of both majors. */
export const MAJORS = [
  { major: 'v1', make: () => new ClientV1(info) as unknown as ClientV2 },
  { major: 'v2', make: () => new ClientV2(info) },
] as const;

/** Calls a tool of the vault; its text. */
export async function ask(client: ClientV2, name: 'increment' | 'whoami'): Promise<string> {
  const { content } = await client.callTool({ name, arguments: {} });
  return (content as { text: string }[]).map(({ text }) => text).join();
}

/** What each test of a file has for itself, from a `beforeEach` to an `afterEach`. */
export interface Stage {
  vault: Vault;
  /** Of the clients. */
  store: Store;
  /** What is closed in the end. */
  readonly opened: { valise: ClientValise; client: ClientV2 }[];
}

/** A vault whose tokens end soon, and a store for its clients, anew for each test of the file that calls this. */
export function vaultStage(): Stage {
  const stage = { opened: [] } as Partial<Stage> as Stage;
  beforeEach(async () => {
    vi.spyOn(console, 'warn').mockImplementation(() => {});
    stage.vault = await openVault({ ttl: 100 });
    stage.store = memoryStore();
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    for (const { client, valise } of stage.opened.splice(0)) {
      await client.close();
      await valise.close();
    }
    await stage.vault.close();
  });
  return stage;
}
