import { entriesUnder, isObject, openAsItIs } from 'mcp-valise/internal';
import { inspectToken, type Keyring, SealError } from 'mcp-valise/seal';
import { isSealed } from '../tour/carried.ts';

/** A key, what it is for in a keyring, and how much it still seals. */
export interface KeyUse {
  readonly kid: string;
  /** `seals`: the first key of the keyring. `opens`: another one. `missing`: something is sealed with it, but it is not there. */
  readonly phase: 'seals' | 'opens' | 'missing' | 'unknown';
  readonly entries: number;
}

/** How many entries of a store are read to count keys. */
const MOST = 100_000;
/** How deep in a record seals are looked for. A session record has its proof at the top, and values below. */
const DEPTH = 4;

/** Counts how many of these values each key has sealed, whole or in part. */
export function countKids(
  values: Iterable<unknown>,
  counts = new Map<string, number>(),
): Map<string, number> {
  for (const value of values) for (const kid of kidsIn(value)) counts.set(kid, (counts.get(kid) ?? 0) + 1);
  return counts;
}

/** Counts the entries of a store by the key that seals them, without opening any. */
export async function kidsInStore(url: string): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  if (url.startsWith('memory:')) return counts;
  const store = await openAsItIs(url);
  try {
    let seen = 0;
    for await (const [, { value }] of entriesUnder(store, '')) {
      countKids([value], counts);
      if (++seen >= MOST) break;
    }
    return counts;
  } finally {
    await store.close();
  }
}

/** Returns the ids of the keys that made the seals in a value. */
function kidsIn(value: unknown, found = new Set<string>(), depth = DEPTH): Set<string> {
  if (isSealed(value)) {
    try {
      found.add(inspectToken(value).kid);
    } catch (error) {
      // A text that only looks like a seal.
      if (!(error instanceof SealError)) throw error;
    }
  } else if (depth > 0 && (isObject(value) || Array.isArray(value)))
    for (const part of Object.values(value)) kidsIn(part, found, depth - 1);
  return found;
}

/** Returns each key of a keyring, and each other one that still seals something. Without a keyring, phases are unknown. */
export function keyUses(keys: Keyring | undefined, counts: ReadonlyMap<string, number>): KeyUse[] {
  const own = (keys?.kids ?? []).map(
    (kid, at): KeyUse => ({
      kid,
      phase: at === 0 ? 'seals' : 'opens',
      entries: counts.get(kid) ?? 0,
    }),
  );
  const others = [...counts].filter(([kid]) => !keys?.kids.includes(kid));
  return [
    ...own,
    ...others.map(([kid, entries]): KeyUse => ({ kid, phase: keys ? 'missing' : 'unknown', entries })),
  ];
}
