import { setTimeout as sleep } from 'node:timers/promises';
import type { Meta, Response, Result } from '../../src/wire/index.ts';

const KEY = 'dev.valise/session';
const SEQ = 'dev.valise/seq';
const ENVELOPE = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': { extensions: { 'dev.valise/sessions': {} } },
  'io.modelcontextprotocol/clientInfo': { name: 'load', version: '1.0.0' },
};

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
  url: URL,
  method: string,
  params: Record<string, unknown>,
  session?: Held,
): Promise<Response | undefined> {
  const _meta: Meta = {
    ...ENVELOPE,
    ...(session && { [KEY]: { sessionId: session.sessionId, state: session.state } }),
  };
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': method,
        ...(typeof params['name'] === 'string' && { 'mcp-name': params['name'] }),
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
  url: URL,
  method: string,
  params: Record<string, unknown>,
  session: Held | undefined,
  counts: Figures,
): Promise<Response> {
  for (;;) {
    const response = await post(url, method, params, session);
    if (response) return response;
    counts.retries++;
    await sleep(50 + Math.random() * 100);
  }
}

export async function create(url: URL, counts: Figures): Promise<Held> {
  const response = await insist(url, 'dev.valise/sessions/create', {}, undefined, counts);
  if (!('result' in response)) throw new Error(JSON.stringify(response));
  const { sessionId, state } = response.result['session'] as Held;
  return { sessionId, state, seq: Number(response.result._meta?.[SEQ] ?? 0) };
}

/** What must hold for every answer: it names exactly its session. Takes over the state, an older one never. */
function check(response: Response, session: Held, counts: Figures): Result | undefined {
  if (!('result' in response)) {
    counts.faults.push(`error ${JSON.stringify(response.error)}`);
    return undefined;
  }
  const said = response.result._meta?.[KEY] as Held | undefined;
  const seq = Number(response.result._meta?.[SEQ]);
  if (said?.sessionId !== session.sessionId)
    counts.faults.push(`answer without its session: ${JSON.stringify(said)}`);
  if (said?.state !== undefined && seq >= session.seq) Object.assign(session, { state: said.state, seq });
  return response.result;
}

export async function read(url: URL, session: Held, counts: Figures): Promise<readonly string[]> {
  const response = await insist(url, 'tools/call', { name: 'notebook_read', arguments: {} }, session, counts);
  const result = check(response, session, counts);
  return (result?.['structuredContent'] as { notes: string[] } | undefined)?.notes ?? [];
}

/**
 * Takes a note, exactly once. A call that died with its instance may or may not have been kept: the notes tell, once
 * what the dead process sent has arrived.
 */
export async function appendStored(url: URL, session: Held, text: string, counts: Figures): Promise<void> {
  counts.calls++;
  for (;;) {
    const response = await post(url, 'tools/call', { name: 'notebook_append', arguments: { text } }, session);
    if (response) {
      check(response, session, counts);
      return;
    }
    counts.retries++;
    await sleep(100 + Math.random() * 100);
    if ((await read(url, session, counts)).includes(text)) return;
  }
}

/**
 * Takes a note on the state that the client has now. Whatever else runs, the answer goes on from exactly that state: one
 * note more, one step further.
 */
export async function appendSealed(
  url: URL,
  session: Held,
  text: string,
  counts: Figures,
  size: Map<number, Set<number>>,
): Promise<void> {
  counts.calls++;
  const before = { ...session };
  const response = await insist(
    url,
    'tools/call',
    { name: 'notebook_append', arguments: { text } },
    before,
    counts,
  );
  const held = { ...before };
  const result = check(response, held, counts);
  const { count } = (result?.['structuredContent'] ?? {}) as { count?: number };
  if (held.seq !== before.seq + 1) counts.faults.push(`sequence ${before.seq} became ${held.seq}`);
  const sizes = size.get(before.seq) ?? new Set([before.seq]);
  if (count === undefined || !sizes.has(count - 1))
    counts.faults.push(`${count} notes after sequence ${before.seq}`);
  size.set(held.seq, (size.get(held.seq) ?? new Set()).add(Number(count)));
  if (held.seq >= session.seq) Object.assign(session, { state: held.state, seq: held.seq });
}
