import { ValiseError } from '../../errors.ts';
import type { Json } from '../../json.ts';
import type { Store } from '../../store/types.ts';

const TRIES = 50;

/** Changes an entry, whoever else does so at the same time; `edit` returns undefined to leave it as it is. */
export async function changeEntry<Value>(
  store: Store,
  key: string,
  edit: (now: unknown) => Value | undefined,
): Promise<Value | undefined> {
  for (let tries = 0; tries < TRIES; tries++) {
    const entry = await store.get(key);
    const next = edit(entry?.value);
    if (next === undefined) return undefined;
    const condition = entry ? { ifVersion: entry.version } : { ifAbsent: true };
    // What is undefined has no place in a store.
    const value = JSON.parse(JSON.stringify(next)) as Json;
    if ((await store.put(key, value, condition)) !== undefined) return next;
  }
  throw new ValiseError(
    'store-busy',
    'What a client keeps could not be written: others change it all the time.',
    {
      next: 'Try again.',
    },
  );
}
