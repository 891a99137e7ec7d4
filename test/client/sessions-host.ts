import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { ClientValise } from 'mcp-valise/client';
import { type Meta, NAMES, type Result, sessionMethod } from 'mcp-valise/internal';
import { edgeFetch } from '../../src/edge/fetch.ts';
import { type Hosts, KINDS, type Kind, openHosts, type Seen } from './hosts.ts';

/** What a request says about its session, in either era. */
export function sessionOf(meta: Meta): { sessionId: string; state?: string } | undefined {
  return (meta[NAMES.modern.session] ?? meta[NAMES.legacy.session]) as { sessionId: string } | undefined;
}

/** A server of sessions that does what a test says. */
export interface SessionHost extends Hosts {
  /** The headers of every request, in the order of {@link Hosts.seen}. */
  readonly headers: Headers[];
  /** Answers a call that is none of the session methods. */
  answer: (request: Seen) => Result | Promise<Result>;
  /** Ids that it knows. */
  readonly known: Set<string>;
  /** Methods that it does not know. */
  readonly without: Set<string>;
  connect(valise: ClientValise, url: string): Promise<ClientV2>;
}

/** A result that says something about a session. */
export function saying(era: Kind['era'], session: object | null, seq?: number): Result {
  const { session: key, seq: seqKey } = NAMES[era];
  return { _meta: { [key]: session, ...(seq !== undefined && { [seqKey]: seq }) } };
}

/** Each kind of client at a server that uses and announces the names of one column of the table. */
export const SPELLED = [
  { ...KINDS[0], spelling: 'legacy' },
  { ...KINDS[1], spelling: 'legacy' },
  { ...KINDS[2], spelling: 'modern' },
  { ...KINDS[2], kind: "v2 modern at a server of the drafts' names", spelling: 'legacy' },
] as const;

export async function openSessionHost(
  kind: Kind | (typeof SPELLED)[number] = KINDS[0],
): Promise<SessionHost> {
  const hosts = await openHosts();
  const { era } = kind;
  const spelling = 'spelling' in kind ? kind.spelling : era;
  const headers: Headers[] = [];
  const known = new Set<string>();
  const without = new Set<string>();
  let made = 0;
  const { code } = NAMES[spelling];
  const unknown = (sessionId: string | undefined): Result => ({
    error: { code: code.sessionNotFound, message: 'Session not found', data: { sessionId } },
  });
  const begin = (): Result => {
    const sessionId = `sess-${++made}`;
    known.add(sessionId);
    return { session: { sessionId, state: `${sessionId}:0`, expiresAt: '2099-01-01T00:00:00Z' } };
  };
  const host = Object.assign(hosts, {
    headers,
    known,
    without,
    answer: (() => ({})) as SessionHost['answer'],
    async connect(valise: ClientValise, url: string) {
      const fetch = edgeFetch((to, init) => {
        if (init?.method === 'POST') headers.push(new Headers(init.headers));
        return hosts.fetch(to, init);
      });
      const info = { name: 'test', version: '1.0.0' };
      if (kind.major === 'v1') {
        const client = new ClientV1(info);
        await valise.connect(client, new HttpV1(new URL(url), { fetch }));
        return client as unknown as ClientV2;
      }
      const mode = era === 'modern' ? ({ pin: '2026-07-28' } as const) : 'legacy';
      const client = new ClientV2(info, { versionNegotiation: { mode } });
      await valise.connect(client, new HttpV2(new URL(url), { fetch }));
      return client;
    },
  });
  hosts.capabilities = {
    ...hosts.capabilities,
    sessions: {},
    ...('spelling' in kind && spelling === 'modern' && { extensions: { 'dev.valise/sessions': {} } }),
  };
  hosts.respond = (request) => {
    const sent = sessionOf(request.meta);
    const verb = sessionMethod(request.method)?.verb;
    if (verb && without.has(verb)) return { error: { code: -32601, message: 'Method not found' } };
    if (verb === 'create') return begin();
    if (verb === 'list') return { sessions: [...known].map((sessionId) => ({ sessionId })) };
    if (sent && !known.has(sent.sessionId)) return unknown(sent.sessionId);
    if (verb === 'delete') {
      known.delete(sent?.sessionId as string);
      return {};
    }
    if (verb === 'resume' || verb === 'recover')
      return { session: { sessionId: sent?.sessionId, state: `${sent?.sessionId}:9` } };
    if (verb === 'fork') return begin();
    return host.answer(request);
  };
  return host;
}
