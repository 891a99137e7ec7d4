import { ValiseError } from '../../core/errors.ts';
import type { Json } from '../../core/json.ts';
import type { Entry, PutOptions, Store } from '../types.ts';
import { clock, sleep } from './clock.ts';

/** The next value of an entry: null deletes it, undefined leaves it unchanged. */
export type Next = Json | null | undefined;

/** Options of {@link update}. */
export interface UpdateOptions extends Pick<PutOptions, 'unlisted' | 'durable'> {
  /** The lifetime of the written entry, in seconds. Without it the entry does not expire. */
  readonly ttl?: number | ((next: Json) => number | undefined) | undefined;
  /**
   * The entry as the caller last read it, so that the first attempt does not have to read it. `change` receives this
   * very object.
   */
  readonly seen?: { readonly entry: Entry | undefined } | undefined;
}

/** The part of a store that {@link update} needs. */
export type Updatable = Pick<Store, 'get' | 'put' | 'delete'>;

/** The number of attempts of {@link update} before it gives up. */
export const TRIES = 100;

/**
 * Reads an entry, calls `change` for its next value, and writes that if nobody else has written meanwhile; otherwise
 * starts over. Every read-modify-write in Valise uses this function. Returns the new version, null if the entry no
 * longer exists, or undefined if `change` left it unchanged.
 *
 * A driver treats its own write as a success even if the reply was lost and the client sent it again (the contract
 * suite proves it), so nothing is applied twice. An error of the store passes through with its `outcome`. The error
 * `store-busy`, after {@link TRIES} attempts, is `not-done`.
 */
export async function update(
  store: Updatable,
  key: string,
  change: (entry: Entry | undefined) => Next | Promise<Next>,
  { ttl, seen, ...hints }: UpdateOptions = {},
): Promise<string | null | undefined> {
  for (let tries = 0; tries < TRIES; tries++) {
    // The first retries are immediate, because the competing write is done. Later ones are randomly delayed to spread
    // out contention.
    if (tries > 2) await sleep(Math.random() * Math.min(tries, 20));
    const entry = seen && tries === 0 ? seen.entry : await store.get(key);
    const changed = change(entry);
    const next = changed instanceof Promise ? await changed : changed;
    if (next === undefined) return undefined;
    if (next === null) {
      if (!entry || (await store.delete(key, { ifVersion: entry.version }))) return null;
      continue;
    }
    const life = typeof ttl === 'function' ? ttl(next) : ttl;
    const version = await store.put(key, next, {
      ...hints,
      ...(life !== undefined && { ttl: life }),
      ...(entry ? { ifVersion: entry.version } : { ifAbsent: true }),
    });
    if (version !== undefined) return version;
  }
  throw new ValiseError('store-busy', `An entry was changed by others ${TRIES} times in between.`, {
    next: 'Try again.',
    outcome: 'not-done',
  });
}

/** Whether {@link update} gave up because others always wrote first. */
export function isContended(error: unknown): error is ValiseError {
  return error instanceof ValiseError && error.code === 'store-busy';
}

/** Returns the seconds until a time, at least 1, for use as `ttl`, which must be more than 0. */
export function secondsUntil(time: number): number {
  return Math.max(1, (time - clock.now()) / 1000);
}
