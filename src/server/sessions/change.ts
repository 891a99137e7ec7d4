import { setTimeout as sleep } from 'node:timers/promises';
import { ValiseError } from '../../errors.ts';
import { isObject, type Json } from '../../json.ts';
import type { Store } from '../../store/types.ts';

const TRIES = 100;

/**
 * Replaces an entry of a store by what `step` makes of it, and starts over where somebody else was faster. Nothing is
 * written where `step` returns undefined; null deletes the entry.
 */
export async function changeEntry(
  store: Store,
  key: string,
  ttl: number | ((next: Json) => number),
  step: (value: Json | undefined) => Json | undefined | Promise<Json | undefined>,
): Promise<void> {
  for (let tries = 0; tries < TRIES; tries++) {
    // Whoever came in between has finished; a crowd is spread out a little.
    if (tries > 2) await sleep(Math.random() * Math.min(tries, 20));
    const entry = await store.get(key);
    const next = await step(entry?.value);
    if (next === undefined) return;
    if (next === null) {
      if (!entry || (await store.delete(key, { ifVersion: entry.version }))) return;
      continue;
    }
    const condition = entry ? { ifVersion: entry.version } : { ifAbsent: true };
    if (
      (await store.put(key, next, { ttl: typeof ttl === 'number' ? ttl : ttl(next), ...condition })) !==
      undefined
    )
      return;
  }
  throw new ValiseError(
    'session-conflict',
    `An entry about sessions was changed by others ${TRIES} times in between.`,
    {
      next: 'Try again.',
    },
  );
}

/** The list that an entry holds under a name; empty where there is no entry yet. Items that no version has written are left out. */
export function listIn<Item>(value: unknown, name: string): readonly Item[] {
  const list = isObject(value) ? value[name] : undefined;
  return Array.isArray(list) ? (list.filter(isItem) as readonly Item[]) : [];
}

/** Lists hold names, or names and times in pairs with a number. */
function isItem(item: unknown): boolean {
  if (!Array.isArray(item)) return typeof item === 'string';
  return /^(string|number)$/.test(typeof item[0]) && Number.isFinite(item[1]);
}
