import { ValiseError } from '../../errors.ts';
import type { Json } from '../../json.ts';
import type { Entry, PutOptions, Store } from '../types.ts';
import { clock, sleep } from './clock.ts';

/** What becomes of an entry: its next value, null to delete it, undefined to leave it as it is. */
export type Next = Json | null | undefined;

/** How {@link update} writes. */
export interface UpdateOptions extends Pick<PutOptions, 'unlisted' | 'durable'> {
  /** Lifetime of what is written, in seconds. Without it the entry stays. */
  readonly ttl?: number | ((next: Json) => number | undefined) | undefined;
  /** The entry as the caller read it last, so that the first attempt need not read it. `change` gets this very object. */
  readonly seen?: { readonly entry: Entry | undefined } | undefined;
}

/** What {@link update} needs of a store. */
export type Updatable = Pick<Store, 'get' | 'put' | 'delete'>;

/** How often {@link update} starts over before it gives up. */
export const TRIES = 100;

/**
 * Reads an entry, has `change` say what becomes of it, and writes that if nobody else has written meanwhile; otherwise starts
 * over. Every read-modify-write of Valise is this one. Returns the new version; null if there is no entry any more, undefined
 * if `change` left it as it is.
 *
 * A driver takes its own write for a success also if the reply was lost and the client sent it again (the contract suite
 * proves it), so nothing is applied twice. An error of the store passes through with its `outcome`; `store-contended`, after
 * {@link TRIES} attempts, is `not-done`.
 */
export async function update(
  store: Updatable,
  key: string,
  change: (entry: Entry | undefined) => Next | Promise<Next>,
  { ttl, seen, ...hints }: UpdateOptions = {},
): Promise<string | null | undefined> {
  for (let tries = 0; tries < TRIES; tries++) {
    // Whoever came in between has finished; a crowd is spread out a little.
    if (tries > 2) await sleep(Math.random() * Math.min(tries, 20));
    const entry = seen && tries === 0 ? seen.entry : await store.get(key);
    const next = await change(entry);
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
  throw new ValiseError('store-contended', `An entry was changed by others ${TRIES} times in between.`, {
    next: 'Try again.',
    outcome: 'not-done',
  });
}

/** Whether {@link update} has given up because others always wrote first. */
export function isContended(error: unknown): error is ValiseError {
  return error instanceof ValiseError && error.code === 'store-contended';
}

/** The rest of a life that ends at a time, in seconds; for `ttl`, which must be more than 0. */
export function secondsUntil(time: number): number {
  return Math.max(1, (time - clock.now()) / 1000);
}
