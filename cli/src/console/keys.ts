import { openAsItIs } from 'mcp-valise/internal';
import { inspectToken, type Keyring, SealError } from 'mcp-valise/seal';
import type { Store } from 'mcp-valise/store';
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

/** Counts how many of these texts each key has sealed. */
export function countKids(
  values: Iterable<unknown>,
  counts = new Map<string, number>(),
): Map<string, number> {
  for (const value of values) {
    if (!isSealed(value)) continue;
    try {
      const { kid } = inspectToken(value);
      counts.set(kid, (counts.get(kid) ?? 0) + 1);
    } catch (error) {
      if (!(error instanceof SealError)) throw error;
    }
  }
  return counts;
}

/** Counts the entries of a store by the key that seals them, without opening any. */
export async function kidsInStore(url: string): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  if (url.startsWith('memory:')) return counts;
  const store = await openAsItIs(url);
  try {
    let seen = 0;
    for (let cursor: string | undefined; ; ) {
      const page = await store.list('', cursor === undefined ? {} : { cursor });
      countKids(await valuesOf(store, page.keys), counts);
      seen += page.keys.length;
      cursor = page.cursor;
      if (cursor === undefined || seen >= MOST) return counts;
    }
  } finally {
    await store.close();
  }
}

async function valuesOf(store: Store, keys: readonly string[]): Promise<unknown[]> {
  const values: unknown[] = [];
  for (const key of keys) values.push((await store.get(key).catch(() => undefined))?.value);
  return values;
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
