import { setTimeout as sleep } from 'node:timers/promises';
import type { Era, Meta, Response, Result } from '../../src/wire/index.ts';

const SEQ = 'dev.valise/seq';
const capabilities = { extensions: { 'dev.valise/sessions': {} } };

/** What a client says in each era, and how it says with each request who it is: any instance may get any of them. */
const ERAS = {
  legacy: {
    version: '2025-11-25',
    key: 'io.modelcontextprotocol/session',
    create: 'sessions/create',
    introduction: { 'dev.valise/client': { protocolVersion: '2025-11-25', capabilities } },
  },
  modern: {
    version: '2026-07-28',
    key: 'dev.valise/session',
    create: 'dev.valise/sessions/create',
    introduction: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': capabilities,
      'io.modelcontextprotocol/clientInfo': { name: 'load', version: '1.0.0' },
    },
  },
} as const;

/** Where a load goes, and the era it speaks. */
export interface Target {
  readonly url: URL;
  readonly era: Era;
}

/** A session as a client holds it. */
export interface Held {
  readonly sessionId: string;
  state: string;
  seq: number;
}

/** What a load did, and what came of it. */
export interface Figures {
  calls: number;
  /** Calls that died with their instance, or found none, and were made again. */
  retries: number;
  /** Answers that were not what they must be; each is a fault of the server. */
  readonly faults: string[];
}

export const figures = (): Figures => ({ calls: 0, retries: 0, faults: [] });

/** One request over HTTP; undefined where the instance or the balancer failed, so that nobody knows what became of it. */
async function post(
  { url, era }: Target,
  method: string,
  params: Record<string, unknown>,
  session?: Held,
): Promise<Response | undefined> {
  const { version, key, introduction } = ERAS[era];
  const _meta: Meta = {
    ...introduction,
    ...(session && { [key]: { sessionId: session.sessionId, state: session.state } }),
  };
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': version,
        ...(era === 'modern' && { 'mcp-method': method }),
        ...(era === 'modern' && typeof params['name'] === 'string' && { 'mcp-name': params['name'] }),
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } }),
      signal: AbortSignal.timeout(20_000),
    });
    const text = await response.text();
    if (response.status >= 500) return undefined;
    return JSON.parse(/^data: (\{.*)$/m.exec(text)?.[1] ?? text) as Response;
  } catch {
    return undefined;
  }
}

/** Makes a request until it is answered. */
async function insist(
  to: Target,
  method: string,
  params: Record<string, unknown>,
  session: Held | undefined,
  counts: Figures,
): Promise<Response> {
  for (;;) {
    const response = await post(to, method, params, session);
    if (response) return response;
    counts.retries++;
    await sleep(50 + Math.random() * 100);
  }
}

export async function create(to: Target, counts: Figures): Promise<Held> {
  const response = await insist(to, ERAS[to.era].create, {}, undefined, counts);
  if (!('result' in response)) throw new Error(JSON.stringify(response));
  const { sessionId, state } = response.result['session'] as Held;
  return { sessionId, state, seq: Number(response.result._meta?.[SEQ] ?? 0) };
}

/** What must hold for every answer: it names exactly its session. Takes over the state, an older one never. */
function check({ era }: Target, response: Response, session: Held, counts: Figures): Result | undefined {
  if (!('result' in response)) {
    counts.faults.push(`error ${JSON.stringify(response.error)}`);
    return undefined;
  }
  const said = response.result._meta?.[ERAS[era].key] as Held | undefined;
  const seq = Number(response.result._meta?.[SEQ]);
  if (said?.sessionId !== session.sessionId)
    counts.faults.push(`answer without its session: ${JSON.stringify(said)}`);
  if (said?.state !== undefined && seq >= session.seq) Object.assign(session, { state: said.state, seq });
  return response.result;
}

export async function read(to: Target, session: Held, counts: Figures): Promise<readonly string[]> {
  const response = await insist(to, 'tools/call', { name: 'notebook_read', arguments: {} }, session, counts);
  const result = check(to, response, session, counts);
  return (result?.['structuredContent'] as { notes: string[] } | undefined)?.notes ?? [];
}

/**
 * Takes a note, exactly once. A call that died with its instance may or may not have been kept: the notes tell, once
 * what the dead process sent has arrived.
 */
export async function appendStored(to: Target, session: Held, text: string, counts: Figures): Promise<void> {
  counts.calls++;
  for (;;) {
    const response = await post(to, 'tools/call', { name: 'notebook_append', arguments: { text } }, session);
    if (response) {
      check(to, response, session, counts);
      return;
    }
    counts.retries++;
    await sleep(100 + Math.random() * 100);
    if ((await read(to, session, counts)).includes(text)) return;
  }
}

/**
 * Takes a note on the state that the client has now. Whatever else runs, the answer goes on from exactly that state: one
 * note more, one step further.
 */
export async function appendSealed(
  to: Target,
  session: Held,
  text: string,
  counts: Figures,
  size: Map<number, Set<number>>,
): Promise<void> {
  counts.calls++;
  const before = { ...session };
  const response = await insist(
    to,
    'tools/call',
    { name: 'notebook_append', arguments: { text } },
    before,
    counts,
  );
  const held = { ...before };
  const result = check(to, response, held, counts);
  const { count } = (result?.['structuredContent'] ?? {}) as { count?: number };
  if (held.seq !== before.seq + 1) counts.faults.push(`sequence ${before.seq} became ${held.seq}`);
  const sizes = size.get(before.seq) ?? new Set([before.seq]);
  if (count === undefined || !sizes.has(count - 1))
    counts.faults.push(`${count} notes after sequence ${before.seq}`);
  size.set(held.seq, (size.get(held.seq) ?? new Set()).add(Number(count)));
  if (held.seq >= session.seq) Object.assign(session, { state: held.state, seq: held.seq });
}
