import { ValiseError } from '../../errors.ts';
import { isObject, type Json, type JsonObject } from '../../json.ts';
import { type Members, recordsOf } from '../../store/kit/collection.ts';
import { type Attributes, checkMaxAge, MAX_AGE, type Scope } from '../../wire/index.ts';
import { identify, isIdentity, normalScope } from '../identity.ts';
import type { JarImported } from './types.ts';

/** One entry as the jar holds it. Times are in milliseconds since 1970. */
export interface Entry {
  readonly value: Json;
  /** The JSON text of the value, if `value` cannot hold its numbers exactly. */
  readonly text?: string | undefined;
  /** True if it arrived over an encrypted connection. It is never sent over an unencrypted one. */
  readonly secure?: boolean | undefined;
  readonly size: number;
  /** The server that set it. */
  readonly from: string;
  readonly setAt: number;
  readonly expiresAt: number;
  readonly attributes: Attributes;
  /** The request whose response set it: its method and, for a tool, prompt or resource, the name. */
  readonly by?: string | undefined;
  /** Set only if a `method-scope` decides when the entry is sent. All other entries are sent whenever their set is. */
  readonly usedAt?: number;
  /** The `expiresAt` that the store has, if the entry has been renewed since. */
  readonly storedUntil?: number;
}

/** Identifies a set of entries, which is one record of the store. */
export interface SetName {
  /** The server's name, with a leading dot if the entries are valid for a whole domain. */
  readonly server: string;
  /** The account that the entries are sent for; see `Account`. */
  readonly account: string;
  /** The stored session that the entries belong to. */
  readonly session: string | undefined;
}

/** A set of entries as stored. */
export interface StoredSet extends SetName {
  readonly usedAt: number;
  readonly entries: Map<string, Entry>;
}

/** The schema of stored sets. {@link readSet} checks the contents of a record. */
export const RECORDS = recordsOf('jar record');

/** The attributes of state that has none. */
export const NONE: Attributes = Object.freeze({});

/** Returns the record to store. It uses lists instead of dictionaries, so that `__proto__` is an ordinary name. */
export function writeSet(
  set: SetName & { readonly usedAt: number; readonly entries: ReadonlyMap<string, Entry> },
): JsonObject {
  const items: Json[] = [];
  for (const [
    name,
    { value, text, secure, size, setAt, expiresAt, from, usedAt, by, attributes },
  ] of set.entries) {
    const rest: Record<string, Json> = { ...(attributes as JsonObject) };
    if (from !== set.server) rest['from'] = from;
    if (usedAt !== undefined) rest['usedAt'] = usedAt;
    if (by !== undefined) rest['by'] = by;
    if (text !== undefined) rest['text'] = text;
    if (secure) rest['secure'] = true;
    // If an entry has a text, storing the value would lose precision too.
    const row: Json[] = [name, text === undefined ? value : true, size, setAt, expiresAt];
    if (Object.keys(rest).length > 0) row.push(rest);
    items.push(row);
  }
  return {
    server: set.server,
    ...(set.account !== '' && { account: set.account }),
    ...(set.session !== undefined && { session: set.session }),
    usedAt: set.usedAt,
    items,
  };
}

/** Reads a record. Returns undefined if it is damaged, because others can write the store's file. */
export function readSet(value: Members | undefined): StoredSet | undefined {
  const { server, account = '', session, usedAt, items: rows } = value ?? {};
  if (typeof server !== 'string' || typeof account !== 'string') return undefined;
  if (!Array.isArray(rows) || (session !== undefined && typeof session !== 'string')) return undefined;
  const entries = new Map<string, Entry>();
  // No entry lives longer than a server could request, regardless of the clock or the file.
  const latest = Date.now() + MAX_AGE * 1000;
  for (const row of rows as readonly unknown[]) {
    const entry = readRow(row, server, latest);
    if (entry) entries.set((row as readonly string[])[0] as string, entry);
  }
  return { server, account, session, usedAt: typeof usedAt === 'number' ? usedAt : 0, entries };
}

function readRow(row: unknown, server: string, latest: number): Entry | undefined {
  if (!Array.isArray(row)) return undefined;
  const [name, value, size, setAt, end, rest] = row as readonly unknown[];
  if (typeof name !== 'string' || value === undefined || value === null) return undefined;
  if (typeof size !== 'number' || typeof setAt !== 'number' || typeof end !== 'number') return undefined;
  const expiresAt = Math.min(end, latest);
  if (!isObject(rest))
    return { value: value as Json, size, from: server, setAt, expiresAt, attributes: NONE };
  const { from = server, usedAt, by, text, secure, maxAge, serverScope, methodScope } = rest;
  const exact = typeof text === 'string' ? parsed(text) : undefined;
  if (text !== undefined && exact === undefined) return undefined;
  return {
    value: exact ?? (value as Json),
    ...(exact !== undefined && { text: text as string }),
    ...(secure === true && { secure: true }),
    size,
    from: String(from),
    setAt,
    expiresAt,
    attributes: {
      ...(typeof maxAge === 'number' && { maxAge }),
      ...(typeof serverScope === 'string' && { serverScope }),
      ...(typeof methodScope === 'string' && { methodScope }),
    },
    ...(typeof usedAt === 'number' && { usedAt }),
    ...(typeof by === 'string' && { by }),
  };
}

/** Parses a text. Returns undefined if it is not JSON, because the text is sent unchanged, or if it is null. */
function parsed(text: string): Json | undefined {
  try {
    return (JSON.parse(text) as Json) ?? undefined;
  } catch {
    return undefined;
  }
}

/** One imported entry and the set that it belongs to. */
export interface ImportedEntry {
  readonly set: SetName;
  readonly scope: Scope;
  readonly key: string;
  readonly entry: Entry;
}

type Refusal = JarImported['refused'][number];

/** Reads the result of `export`, as JSON. Checks each entry as if a server had sent it. */
export function readExport(
  given: unknown,
  bytesPerKey: number,
): { readonly entries: ImportedEntry[]; readonly refused: Refusal[] } {
  // Dates become strings, as in a file.
  const data: unknown = given === undefined ? undefined : JSON.parse(JSON.stringify(given));
  if (!isObject(data) || data['version'] !== 1 || !Array.isArray(data['entries']))
    throw new ValiseError('invalid-argument', 'This is not the export of a jar.', {
      next: 'Give what jar.export() returns (valise jar export).',
    });
  const entries: ImportedEntry[] = [];
  const refused: Refusal[] = [];
  for (const one of data['entries'] as readonly unknown[]) {
    const read = isObject(one) ? readExported(one, bytesPerKey) : 'It is no object.';
    if (typeof read !== 'string') entries.push(read);
    else {
      const { server, key } = isObject(one) ? one : {};
      refused.push({
        ...(typeof server === 'string' && { server: shortened(server) }),
        ...(typeof key === 'string' && { key: shortened(key) }),
        detail: read,
      });
    }
  }
  return { entries, refused };
}

/** Returns the entry, or the reason why it is rejected. */
function readExported(from: Readonly<Record<string, unknown>>, bytesPerKey: number): ImportedEntry | string {
  const { server, scope, key, session, account = '', secure, setBy } = from;
  if (typeof server !== 'string' || server === '') return 'It names no server.';
  if (typeof key !== 'string') return 'It has no key.';
  if (scope !== 'session' && scope !== 'server') return 'Its scope is neither session nor server.';
  if (typeof account !== 'string') return 'Its account is no text.';
  if (scope === 'session' && typeof session !== 'string') return 'Its session was not kept.';
  const text = typeof from['text'] === 'string' ? from['text'] : undefined;
  const value = text === undefined ? from['value'] : parsed(text);
  if (value === undefined || value === null) return 'It has no value.';
  const size = Buffer.byteLength(key) + Buffer.byteLength(text ?? JSON.stringify(value));
  if (size > bytesPerKey) return `It takes ${size} bytes; ${bytesPerKey} are allowed.`;
  const attributes = exportedAttributes(from['attributes'] ?? {}, server, scope);
  if (typeof attributes === 'string') return attributes;
  const [now, setAt, end] = [Date.now(), timeOf(from['setAt']), timeOf(from['expiresAt'])];
  if (Number.isNaN(setAt) || Number.isNaN(end)) return 'It does not say when it was set and when it ends.';
  if (end <= now) return 'Its time is over.';
  const { serverScope } = attributes;
  return {
    set: {
      server: serverScope === undefined ? server : `.${serverScope}`,
      account,
      session: scope === 'session' ? (session as string) : undefined,
    },
    scope,
    key,
    entry: {
      value: value as Json,
      ...(text !== undefined && { text }),
      ...(secure === true && { secure }),
      size,
      from: server,
      setAt: Math.min(setAt, now),
      expiresAt: Math.min(end, now + MAX_AGE * 1000),
      ...(typeof setBy === 'string' && { by: setBy.slice(0, MAX_SET_BY) }),
      attributes,
    },
  };
}

function exportedAttributes(given: unknown, server: string, scope: Scope): Attributes | string {
  if (!isObject(given)) return 'Its attributes are no object.';
  const { maxAge, serverScope, methodScope } = given;
  if (maxAge !== undefined && checkMaxAge(maxAge)) return 'Its max-age is not allowed.';
  if (methodScope !== undefined && (typeof methodScope !== 'string' || methodScope.length > 2048))
    return 'Its method-scope is not allowed.';
  const isCovered =
    serverScope === undefined ||
    (scope === 'server' && typeof serverScope === 'string' && scopesOf(server).includes(serverScope));
  if (!isCovered) return `Its server-scope is not for ${shortened(server)} to set.`;
  return {
    ...(maxAge !== undefined && { maxAge: maxAge as number }),
    ...(serverScope !== undefined && { serverScope: normalScope(serverScope as string) }),
    ...(methodScope !== undefined && { methodScope: methodScope as string }),
  };
}

/** Returns the domains that a server may set state for. A command has none. */
function scopesOf(server: string): readonly string[] {
  const url = `https://${server}`;
  if (/[/\\]/.test(server) || !URL.canParse(url)) return [];
  const who = identify({ kind: 'http', url: new URL(url) }, { allowLocal: true });
  return isIdentity(who) && who.name === server ? who.scopes : [];
}

function timeOf(value: unknown): number {
  return typeof value === 'string' ? Date.parse(value) : Number.NaN;
}

/** The longest description of a call that an imported entry may have. */
const MAX_SET_BY = 300;

/** The longest name that is shown in full. Stored names are limited by the quota for a key. */
const MAX_SHOWN = 1024;

/** Truncates a name for display, because a server may send one of any length. */
export function shortened(name: string): string {
  return name.length > MAX_SHOWN ? `${name.slice(0, MAX_SHOWN)}…` : name;
}
