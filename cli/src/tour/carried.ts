import { createHash } from 'node:crypto';
import { isObject } from 'mcp-valise/internal';
import { isSession, type Json, NAMES, readSession, readSessionResult, readState } from 'mcp-valise/wire';

/** A piece of state on its way: readable, or shown as a fingerprint because it is sealed or a secret. */
export interface Carried {
  /** What it is called on the wire. */
  readonly what: string;
  readonly value?: Json;
  readonly sealed?: Fingerprint;
  readonly secret?: Fingerprint;
}

/** What can be shown of something that is not to be read. */
interface Fingerprint {
  /** The first characters of its digest: the same text has the same fingerprint. */
  readonly fingerprint: string;
  readonly bytes: number;
}

const TOKEN = /^v1\.[\w-]{8}\.[\w-]+$/;

/** True for a text that only the servers with the keys can open. */
export function isSealed(text: unknown): text is string {
  return typeof text === 'string' && TOKEN.test(text);
}

/** What can be shown of a text that is not to be read. */
export function fingerprintOf(text: string): Fingerprint {
  const digest = createHash('sha256').update(text).digest('hex');
  return { fingerprint: digest.slice(0, 8), bytes: Buffer.byteLength(text) };
}

/** A piece of state in a few words. */
export function tellCarried({ what, value, sealed, secret }: Carried): string {
  if (sealed) return `${what}: sealed ${shortly(sealed)}`;
  return `${what}: ${secret ? `secret ${shortly(secret)}` : JSON.stringify(value)}`;
}

function shortly({ fingerprint, bytes }: Fingerprint): string {
  return `#${fingerprint} (${bytes} B)`;
}

/** The state that a message carries, whoever sends it. */
export function carriedBy(message: unknown): Carried[] {
  if (!isObject(message)) return [];
  const body = isObject(message['params']) ? message['params'] : message['result'];
  if (!isObject(body)) return [];
  const found: Carried[] = [];
  const state = readState(body['_meta']);
  for (const scope of ['session', 'server'] as const) {
    for (const [name, value] of Object.entries(state[scope] ?? {}))
      found.push(piece(`${scope} state "${name}"`, value));
  }
  const inMeta = readSession(body['_meta']);
  const session = isSession(inMeta) ? inMeta : readSessionResult(body);
  if (isSession(session)) {
    found.push(piece('session id', session.sessionId));
    if (session.state !== undefined) found.push(piece('session state', session.state));
  }
  const context = body[NAMES.modern.rounds.state];
  if (typeof context === 'string') found.push(piece(NAMES.modern.rounds.state, context));
  return found;
}

function piece(what: string, value: Json): Carried {
  return isSealed(value) ? { what, sealed: fingerprintOf(value) } : { what, value };
}

/** The message as it may be shown: whatever is sealed in it is its fingerprint. */
export function shown(message: unknown): Json {
  return JSON.parse(
    JSON.stringify(message, (_key, value: unknown) =>
      isSealed(value) ? `sealed ${shortly(fingerprintOf(value))}` : value,
    ),
  ) as Json;
}
