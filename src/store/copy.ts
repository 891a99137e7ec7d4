import { ValiseError } from '../core/errors.ts';
import { inspectToken } from '../seal/index.ts';
import { everyEntryPage, isEmpty } from './page.ts';
import { SEAL_MARK } from './plain.ts';
import type { Entry, Store } from './types.ts';

/** Options of {@link copyEntries}. */
export interface CopyOptions {
  /** Also copy into a store that is not empty. Its existing entries stay. */
  readonly merge?: boolean | undefined;
  /** Called with the number of entries processed so far. */
  readonly onProgress?: ((count: number) => void) | undefined;
}

/** The result of a copy. */
export interface Copied {
  readonly copied: number;
  /** The number of entries whose keys existed in the target. */
  readonly skipped: number;
}

const AT_ONCE = 50;

/**
 * Copies all entries as they are, sealed or not, each with its remaining lifetime. Pass both stores as their drivers
 * created them, so that the mark of a sealed store is copied as an entry too.
 */
export async function copyEntries(from: Store, to: Store, options: CopyOptions = {}): Promise<Copied> {
  const isNew = await isEmpty(to);
  if (!isNew && !options.merge)
    throw new ValiseError('store-failed', 'The target holds something already.', {
      next: 'Choose an empty one; or add --merge, which leaves what is there as it is.',
    });
  const mark = await from.get(SEAL_MARK);
  if (!isNew) checkAlike(mark, await to.get(SEAL_MARK));
  // The mark is copied first, so that nobody starts using the target without keys.
  if (mark) await to.put(SEAL_MARK, mark.value, { ifAbsent: true });
  let [copied, skipped] = [0, 0];
  const copy = async ([key, { value, expiresAt }]: readonly [string, Entry]): Promise<void> => {
    if (key === SEAL_MARK) return;
    const ttl = expiresAt === undefined ? undefined : (expiresAt - Date.now()) / 1000;
    if (ttl !== undefined && ttl <= 0) return;
    const version = await to.put(key, value, { ifAbsent: true, ...(ttl !== undefined && { ttl }) });
    if (version === undefined) skipped += 1;
    else copied += 1;
  };
  for await (const page of everyEntryPage(from)) {
    for (let at = 0; at < page.length; at += AT_ONCE)
      await Promise.all(page.slice(at, at + AT_ONCE).map(copy));
    options.onProgress?.(copied + skipped);
  }
  return { copied, skipped };
}

/** Throws if the marks differ: entries sealed with other keys, or not sealed, would not open next to the existing ones. */
function checkAlike(one: Entry | undefined, other: Entry | undefined): void {
  if (kidOf(one) === kidOf(other)) return;
  throw new ValiseError('store-wrong-key', 'The two stores are not sealed with the same key.', {
    next: 'Seal both with one key first (valise keys seal), or copy into an empty store.',
  });
}

function kidOf(mark: Entry | undefined): string | undefined {
  return mark && inspectToken(String(mark.value)).kid;
}
