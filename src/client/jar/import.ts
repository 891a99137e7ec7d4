import { ValiseError } from '../../core/errors.ts';
import { isObject, type Json } from '../../core/json.ts';
import { type Attributes, checkMaxAge, MAX_AGE, type Scope } from '../../wire/index.ts';
import { identify, isIdentity, normalScope } from '../identity/identity.ts';
import { type Entry, parsed, type SetName, shortened } from './entries.ts';
import type { JarImported } from './types.ts';

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
  exported: unknown,
  bytesPerKey: number,
): { readonly entries: ImportedEntry[]; readonly refused: Refusal[] } {
  // Dates become strings, as in a file.
  const data: unknown = exported === undefined ? undefined : JSON.parse(JSON.stringify(exported));
  if (!isObject(data) || data['version'] !== 1 || !Array.isArray(data['entries']))
    throw new ValiseError('invalid-argument', 'This is not the export of a jar.', {
      next: 'Pass the result of jar.export() (valise jar export).',
    });
  const entries: ImportedEntry[] = [];
  const refused: Refusal[] = [];
  for (const one of data['entries'] as readonly unknown[]) {
    const read = isObject(one) ? readExported(one, bytesPerKey) : 'It is not an object.';
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
  const { server, scope, key, session, account = '', secure, setBy, version } = from;
  if (typeof server !== 'string' || server === '') return 'It names no server.';
  if (typeof key !== 'string') return 'It has no key.';
  if (scope !== 'session' && scope !== 'server') return 'Its scope is neither session nor server.';
  if (typeof account !== 'string') return 'Its account is not a string.';
  if (scope === 'session' && typeof session !== 'string') return 'Its session is not stored.';
  const text = typeof from['text'] === 'string' ? from['text'] : undefined;
  const value = text === undefined ? from['value'] : parsed(text);
  if (value === undefined || value === null) return 'It has no value.';
  const size = Buffer.byteLength(key) + Buffer.byteLength(text ?? JSON.stringify(value));
  if (size > bytesPerKey) return `It takes ${size} bytes; ${bytesPerKey} are allowed.`;
  const attributes = exportedAttributes(from['attributes'] ?? {}, server, scope);
  if (typeof attributes === 'string') return attributes;
  const [now, setAt, end] = [Date.now(), timeOf(from['setAt']), timeOf(from['expiresAt'])];
  if (Number.isNaN(setAt) || Number.isNaN(end)) return 'It does not say when it was set or when it expires.';
  if (end <= now) return 'It has expired.';
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
      ...(typeof version === 'string' && { version: version.slice(0, MAX_VERSION) }),
      attributes,
    },
  };
}

function exportedAttributes(value: unknown, server: string, scope: Scope): Attributes | string {
  if (!isObject(value)) return 'Its attributes are not an object.';
  const { maxAge, serverScope, methodScope } = value;
  if (maxAge !== undefined && checkMaxAge(maxAge)) return 'Its max-age is not allowed.';
  if (methodScope !== undefined && (typeof methodScope !== 'string' || methodScope.length > 2048))
    return 'Its method-scope is not allowed.';
  const isCovered =
    serverScope === undefined ||
    (scope === 'server' && typeof serverScope === 'string' && scopesOf(server).includes(serverScope));
  if (!isCovered) return `${shortened(server)} may not set its server-scope.`;
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

/** How much of the version of an imported entry is stored, in characters. */
const MAX_VERSION = 16;
