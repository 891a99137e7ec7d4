import { createHash } from 'node:crypto';
import { isObject } from 'mcp-valise/internal';
import { openStore, type Store } from 'mcp-valise/store';
import { nameOfTarget, parseTarget } from '../connection/target.ts';
import { keysIfAny } from '../options/key-source.ts';
import { type ConnectOptions, isLasting, storeUrl } from '../options/options.ts';
import { clean } from '../output/output.ts';

type StoreOptions = Pick<ConnectOptions, 'store' | 'keyFile'>;

/** The names that a server offers, as of the last `valise list`. Shells complete them without contacting the server. */
export interface KeptOffer {
  readonly target: string;
  readonly tools: readonly string[];
  readonly prompts: readonly string[];
  readonly uris: readonly string[];
}

const PREFIX = 'cli/offered/';
const KEPT_SECONDS = 30 * 86_400;
const MOST_SERVERS = 100;
const MOST_NAMES = 500;
const LONGEST_NAME = 256;

/** Stores the names, unless the target contains a secret. A failing store is not an error. */
export async function keepOffered(
  text: string,
  offered: Omit<KeptOffer, 'target'>,
  options: StoreOptions,
): Promise<void> {
  const target = nameOfTarget(parseTarget(text));
  if (!isLasting(options.store) || target.includes('…')) return;
  const value = {
    target: text,
    tools: usable(offered.tools),
    prompts: usable(offered.prompts),
    uris: usable(offered.uris),
  };
  await withStore(options, (store) =>
    store.put(PREFIX + createHash('sha256').update(target).digest('hex'), value, { ttl: KEPT_SECONDS }),
  ).catch(() => undefined);
}

/** Returns all stored offers. */
export function keptOffers(options: StoreOptions): Promise<KeptOffer[]> {
  return withStore(options, async (store) => {
    const found: KeptOffer[] = [];
    const { keys } = await store.list(PREFIX, { limit: MOST_SERVERS });
    for (const key of keys) {
      const value = (await store.get(key))?.value;
      if (isObject(value) && typeof value['target'] === 'string') found.push(value as unknown as KeptOffer);
    }
    return found;
  });
}

/** Whether two texts name the same target. */
export function isSameTarget(one: string, other: string): boolean {
  return nameOfTarget(parseTarget(one)) === nameOfTarget(parseTarget(other));
}

/** Drops names that a terminal would not show, because names come from servers. */
function usable(names: readonly string[]): string[] {
  return names
    .filter((name) => name.length > 0 && name.length <= LONGEST_NAME && clean(name) === name)
    .slice(0, MOST_NAMES);
}

async function withStore<Value>(
  options: StoreOptions,
  work: (store: Store) => Promise<Value>,
): Promise<Value> {
  const keys = keysIfAny(options, 'VALISE_CLIENT_KEYS');
  const store = await openStore(storeUrl(options.store), keys && { keys });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}
