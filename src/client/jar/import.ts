import { ValiseError } from '../../errors.ts';
import { isObject, type Json } from '../../json.ts';
import { type Attributes, checkMaxAge, MAX_AGE, type Scope } from '../../wire/index.ts';
import { identify, isIdentity, normalScope } from '../identity.ts';
import type { Item } from './item.ts';
import { told } from './problem-detail.ts';
import type { JarImported } from './types.ts';

/** One imported entry and the bag that it belongs to. */
export interface ImportedItem {
  readonly bag: { readonly server: string; readonly account: string; readonly session: string | undefined };
  readonly scope: Scope;
  readonly key: string;
  readonly item: Item;
}

type Refusal = JarImported['refused'][number];

/** Reads the result of `export`, as JSON. Checks each entry as if a server had sent it. */
export function readExport(
  given: unknown,
  bytesPerKey: number,
): { readonly items: ImportedItem[]; readonly refused: Refusal[] } {
  // Dates become strings, as in a file.
  const data: unknown = given === undefined ? undefined : JSON.parse(JSON.stringify(given));
  if (!isObject(data) || data['version'] !== 1 || !Array.isArray(data['entries']))
    throw new ValiseError('bad-export', 'This is not the export of a jar.', {
      next: 'Give what jar.export() returns (valise jar export).',
    });
  const items: ImportedItem[] = [];
  const refused: Refusal[] = [];
  for (const entry of data['entries'] as readonly unknown[]) {
    const read = isObject(entry) ? readEntry(entry, bytesPerKey) : 'It is no object.';
    if (typeof read !== 'string') items.push(read);
    else refused.push({ ...nameOf(entry), detail: read });
  }
  return { items, refused };
}

/** Returns the names of a rejected entry, if it has any. */
function nameOf(entry: unknown): Omit<Refusal, 'detail'> {
  const { server, key } = isObject(entry) ? entry : {};
  return {
    ...(typeof server === 'string' && { server: told(server) }),
    ...(typeof key === 'string' && { key: told(key) }),
  };
}

/** Returns the entry, or the reason why it is rejected. */
function readEntry(entry: Readonly<Record<string, unknown>>, bytesPerKey: number): ImportedItem | string {
  const { server, scope, key, session, account = '', secure } = entry;
  if (typeof server !== 'string' || server === '') return 'It names no server.';
  if (typeof key !== 'string') return 'It has no key.';
  if (scope !== 'session' && scope !== 'server') return 'Its scope is neither session nor server.';
  if (typeof account !== 'string') return 'Its account is no text.';
  if (scope === 'session' && typeof session !== 'string') return 'Its session was not kept.';
  const text = typeof entry['text'] === 'string' ? entry['text'] : undefined;
  const value = text === undefined ? entry['value'] : parsed(text);
  if (value === undefined || value === null) return 'It has no value.';
  const size = Buffer.byteLength(key) + Buffer.byteLength(text ?? JSON.stringify(value));
  if (size > bytesPerKey) return `It takes ${size} bytes; ${bytesPerKey} are allowed.`;
  const attributes = readAttributes(entry['attributes'] ?? {}, server, scope);
  if (typeof attributes === 'string') return attributes;
  const [now, setAt, end] = [Date.now(), timeOf(entry['setAt']), timeOf(entry['expiresAt'])];
  if (Number.isNaN(setAt) || Number.isNaN(end)) return 'It does not say when it was set and when it ends.';
  if (end <= now) return 'Its time is over.';
  const { serverScope } = attributes;
  return {
    bag: {
      server: serverScope === undefined ? server : `.${serverScope}`,
      account,
      session: scope === 'session' ? (session as string) : undefined,
    },
    scope,
    key,
    item: {
      value: value as Json,
      ...(text !== undefined && { text }),
      ...(secure === true && { secure }),
      size,
      from: server,
      setAt: Math.min(setAt, now),
      expiresAt: Math.min(end, now + MAX_AGE * 1000),
      attributes,
    },
  };
}

function readAttributes(given: unknown, server: string, scope: Scope): Attributes | string {
  if (!isObject(given)) return 'Its attributes are no object.';
  const { maxAge, serverScope, methodScope } = given;
  if (maxAge !== undefined && checkMaxAge(maxAge)) return 'Its max-age is not allowed.';
  if (methodScope !== undefined && (typeof methodScope !== 'string' || methodScope.length > 2048))
    return 'Its method-scope is not allowed.';
  const isCovered =
    serverScope === undefined ||
    (scope === 'server' && typeof serverScope === 'string' && scopesOf(server).includes(serverScope));
  if (!isCovered) return `Its server-scope is not for ${told(server)} to set.`;
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

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
