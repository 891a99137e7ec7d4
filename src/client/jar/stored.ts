import { isObject, type Json, type JsonObject } from '../../json.ts';
import { type Members, recordsOf } from '../../store/kit/collection.ts';
import { type Attributes, MAX_AGE } from '../../wire/index.ts';
import type { Bag } from './bag.ts';
import type { Item } from './item.ts';

/** A bag as stored. It uses lists instead of dictionaries, so that a name such as `__proto__` is an ordinary value. */
export interface StoredBag {
  readonly server: string;
  readonly account: string;
  readonly session: string | undefined;
  readonly usedAt: number;
  readonly items: Map<string, Item>;
}

/** The schema of stored bags. {@link readBag} checks the contents of a record. */
export const BAGS = recordsOf('jar record');

/** Returns the record to store for a bag. */
export function writeBag(bag: Bag): JsonObject {
  const items: Json[] = [];
  for (const [name, item] of bag.items) {
    const { value, text, secure, size, setAt, expiresAt, from, usedAt, attributes } = item;
    const rest: Record<string, Json> = {};
    if (from !== bag.server) rest['from'] = from;
    if (usedAt !== undefined) rest['usedAt'] = usedAt;
    if (text !== undefined) rest['text'] = text;
    if (secure) rest['secure'] = true;
    for (const [key, attribute] of Object.entries(attributes)) rest[key] = attribute as Json;
    // If an item has a text, storing the value would lose precision too.
    const row: Json[] = [name, text === undefined ? value : true, size, setAt, expiresAt];
    if (Object.keys(rest).length > 0) row.push(rest);
    items.push(row);
  }
  return {
    server: bag.server,
    ...(bag.account !== '' && { account: bag.account }),
    ...(bag.session !== undefined && { session: bag.session }),
    usedAt: bag.usedAt,
    items,
  };
}

/** Reads a record. Returns undefined if it is damaged, because others can write the store's file. */
export function readBag(value: Members | undefined): StoredBag | undefined {
  const { server, account = '', session, usedAt, items: rows } = value ?? {};
  if (typeof server !== 'string' || typeof account !== 'string') return undefined;
  if (!Array.isArray(rows) || (session !== undefined && typeof session !== 'string')) return undefined;
  const items = new Map<string, Item>();
  // No item lives longer than a server could request, regardless of the clock or the file.
  const latest = Date.now() + MAX_AGE * 1000;
  for (const row of rows as readonly unknown[]) {
    const item = readRow(row, server, latest);
    if (item) items.set((row as readonly string[])[0] as string, item);
  }
  return { server, account, session, usedAt: typeof usedAt === 'number' ? usedAt : 0, items };
}

function readRow(row: unknown, server: string, latest: number): Item | undefined {
  if (!Array.isArray(row)) return undefined;
  const value: unknown = row[1];
  const size: unknown = row[2];
  const setAt: unknown = row[3];
  const end: unknown = row[4];
  if (typeof row[0] !== 'string' || value === undefined || value === null) return undefined;
  if (typeof size !== 'number' || typeof setAt !== 'number' || typeof end !== 'number') return undefined;
  const expiresAt = Math.min(end, latest);
  const rest: unknown = row[5];
  if (!isObject(rest))
    return { value: value as Json, size, from: server, setAt, expiresAt, attributes: NONE };
  const { from = server, usedAt, text, secure, maxAge, serverScope, methodScope } = rest;
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

/** The attributes of state that has none. */
export const NONE: Attributes = Object.freeze({});
