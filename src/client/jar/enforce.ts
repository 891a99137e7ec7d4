import type { Absorber } from './absorb.ts';
import type { Bag } from './bag.ts';

/**
 * Evicts least-recently-used entries until the quotas hold, in the bags that have grown and in the whole jar. Returns the
 * bags that lost an entry.
 */
export function enforce(grown: Iterable<Bag>, { quotas, tally, events }: Absorber): Set<Bag> {
  const smaller = new Set<Bag>();
  const evict = (bag: Bag, name: string, quota: 'keysPerServer' | 'keys'): void => {
    const server = bag.items.get(name)?.from ?? bag.server;
    const scope = bag.isServerScope ? 'server' : 'session';
    bag.remove(name, { yielding: true });
    smaller.add(bag);
    events.emit('evicted', { server, scope, key: name, quota });
  };
  for (const bag of grown) {
    const excess = bag.items.size - quotas.keysPerServer;
    if (excess <= 0) continue;
    for (const name of bag.oldest(excess)) evict(bag, name, 'keysPerServer');
  }
  while (tally.total > quotas.keys) {
    const oldest = tally.oldest();
    if (!oldest) break;
    evict(oldest.bag, oldest.name, 'keys');
  }
  return smaller;
}
