import { ValiseError } from '../../core/errors.ts';
import { ANYTHING, checkOptions, type TakenBy } from '../../core/options.ts';
import type { ClientEventSource } from '../events.ts';
import { byUse, type EntrySet, type Ranked } from './entries.ts';
import type { JarQuotas } from './types.ts';

/** Quotas with all defaults filled in. */
export type Quotas = { readonly [Name in keyof JarQuotas]-?: number };

const MINIMA: Quotas = { bytesPerKey: 4096, keysPerServer: 20, keys: 300 };
// A 4,096-byte value takes about 5,500 bytes once its server has sealed it. The counts are 2.5 to 33 times the minima.
const DEFAULTS: Quotas = { bytesPerKey: 8192, keysPerServer: 50, keys: 10_000 };

const TAKEN: TakenBy<JarQuotas> = { bytesPerKey: ANYTHING, keysPerServer: ANYTHING, keys: ANYTHING };

/** Reads the quotas of a jar. Throws if one is below its minimum. */
export function readQuotas(options: JarQuotas = {}): Quotas {
  checkOptions('openValise, under quotas,', options, TAKEN);
  const quotas = { ...DEFAULTS };
  for (const name of Object.keys(MINIMA) as (keyof Quotas)[]) {
    const value = options[name] ?? DEFAULTS[name];
    if (!Number.isInteger(value) || value < MINIMA[name]) {
      throw new ValiseError('invalid-argument', `Invalid value for the quota ${name}: ${String(value)}.`, {
        next: `Pass a whole number of at least ${MINIMA[name]}. Servers rely on this minimum.`,
      });
    }
    quotas[name] = value;
  }
  return quotas;
}

/** What {@link enforceQuotas} needs to know of a jar. */
export interface Limited {
  readonly quotas: Quotas;
  readonly events: ClientEventSource;
  /** The number of entries in the sets that share the quota `keys`. */
  readonly counter: { readonly total: number };
  /** Returns those sets, and possibly others. */
  allSets(): Iterable<EntrySet>;
}

/**
 * Evicts least-recently-used entries until the quotas are met, in the sets that have grown and in the whole jar. Returns the
 * sets from which an entry was evicted.
 */
export function enforceQuotas(grown: Iterable<EntrySet>, jar: Limited): Set<EntrySet> {
  const smaller = new Set<EntrySet>();
  const evict = (set: EntrySet, name: string, quota: 'keysPerServer' | 'keys'): void => {
    const server = set.entries.get(name)?.from ?? set.server;
    set.remove(name, { yielding: true });
    smaller.add(set);
    jar.events.emit('evicted', { server, scope: set.scope, key: name, quota });
  };
  for (const set of grown) {
    const excess = set.entries.size - jar.quotas.keysPerServer;
    if (excess > 0) for (const { name } of set.oldest(excess)) evict(set, name, 'keysPerServer');
  }
  while (jar.counter.total > jar.quotas.keys) {
    const next = nextToEvict(jar.allSets());
    if (!next) break;
    evict(next.set, next.name, 'keys');
  }
  return smaller;
}

/**
 * Returns the least recently used entry among the owners with the most entries. An owner with a thousand servers therefore
 * cannot evict the entries of owners that have few.
 */
function nextToEvict(sets: Iterable<EntrySet>): Ranked | undefined {
  const sites = new Map<string, { count: number; readonly sets: EntrySet[] }>();
  let most = 0;
  for (const set of sets) {
    if (set.scope !== 'server' || !set.isStored || set.entries.size === 0) continue;
    let site = sites.get(set.site);
    if (!site) sites.set(set.site, (site = { count: 0, sets: [] }));
    site.count += set.entries.size;
    site.sets.push(set);
    most = Math.max(most, site.count);
  }
  let next: Ranked | undefined;
  for (const site of sites.values()) {
    if (site.count < most) continue;
    for (const [oldest] of site.sets.map((set) => set.oldest(1)))
      if (oldest && (!next || byUse(oldest, next) < 0)) next = oldest;
  }
  return next;
}
