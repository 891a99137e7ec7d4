import { createHash } from 'node:crypto';
import {
  isObject,
  isSession,
  type Json,
  NAMES,
  readSession,
  readSessionResult,
  readState,
} from 'mcp-valise/internal';

/** A piece of state in a message: readable, or shown as a fingerprint because it is sealed or a secret. */
export interface Carried {
  /** Its name on the wire. */
  readonly what: string;
  readonly value?: Json;
  readonly sealed?: Fingerprint;
  readonly secret?: Fingerprint;
}

/** The fingerprint of a text that must not be shown. */
interface Fingerprint {
  /** The first characters of its digest: the same text has the same fingerprint. */
  readonly fingerprint: string;
  readonly bytes: number;
}

const TOKEN = /^v1\.[\w-]{8}\.[\w-]+$/;

/** Whether only the servers with the keys can open this text. */
export function isSealed(text: unknown): text is string {
  return typeof text === 'string' && TOKEN.test(text);
}

/** Returns the fingerprint of a text that must not be shown. */
export function fingerprintOf(text: string): Fingerprint {
  const digest = createHash('sha256').update(text).digest('hex');
  return { fingerprint: digest.slice(0, 8), bytes: Buffer.byteLength(text) };
}

/** Formats a piece of state in a few words. */
export function tellCarried({ what, value, sealed, secret }: Carried): string {
  if (sealed) return `${what}: sealed ${shortly(sealed)}`;
  return `${what}: ${secret ? `secret ${shortly(secret)}` : JSON.stringify(value)}`;
}

function shortly({ fingerprint, bytes }: Fingerprint): string {
  return `#${fingerprint} (${bytes} B)`;
}

/** Returns the state that a message carries, in either direction. */
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

/** Returns a message for display, with sealed values replaced by fingerprints. */
export function shown(message: unknown): Json {
  return JSON.parse(
    JSON.stringify(message, (_key, value: unknown) =>
      isSealed(value) ? `sealed ${shortly(fingerprintOf(value))}` : value,
    ),
  ) as Json;
}
