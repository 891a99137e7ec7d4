import type { Listener } from '../../events.ts';
import type { ClientEventSource, ClientEvents } from '../events.ts';
import { type Matcher, matcher } from './filter.ts';
import type { Shelf } from './shelf.ts';
import type { Jar, JarEntry, JarEvents, JarExport, JarFilter, JarImported } from './types.ts';

/** The public interface of the jar: lists, exports, imports and clears its entries. */
export class ClientJar implements Jar {
  readonly #shelf: Shelf;
  readonly #events: ClientEventSource;

  constructor(shelf: Shelf, events: ClientEventSource) {
    this.#shelf = shelf;
    this.#events = events;
  }

  list(given: JarFilter & { readonly values?: boolean | undefined } = {}): JarEntry[] {
    return this.#entries(matcher(given, 'values'), given.values === true);
  }

  show(server: string): JarEntry[] {
    return this.#entries(matcher({ server }), true);
  }

  export(filter: JarFilter = {}): JarExport {
    return { version: 1, entries: this.#entries(matcher(filter), true) };
  }

  import(exported: unknown): Promise<JarImported> {
    return this.#shelf.import(exported);
  }

  async clear(filter: JarFilter = {}): Promise<number> {
    const matches = matcher(filter);
    const epoch = this.#shelf.turn();
    // Clears what this process knows immediately, and after the refresh what other processes may have added.
    const here = this.#clearKnown(filter, matches, epoch);
    await this.#shelf.refresh();
    const others = this.#clearKnown(filter, matches, epoch);
    await this.#shelf.save();
    const unread =
      filter.key === undefined ? await this.#shelf.dropUnreadable(matches.server, filter.scope) : 0;
    return here + others + unread;
  }

  refresh(): Promise<void> {
    return this.#shelf.refresh();
  }

  on<Name extends keyof JarEvents>(name: Name, listener: Listener<JarEvents[Name]>): () => void {
    return this.#events.on(name, listener as Listener<ClientEvents[Name]>);
  }

  #entries(matches: Matcher, values: boolean): JarEntry[] {
    const entries: JarEntry[] = [];
    for (const bag of this.#shelf.all()) {
      this.#shelf.expire(bag, Date.now());
      const scope = bag.isServerScope ? 'server' : 'session';
      for (const [key, item] of bag.items) {
        if (!matches(scope, key, item)) continue;
        entries.push({
          server: item.from,
          scope,
          key,
          size: item.size,
          setAt: new Date(item.setAt),
          usedAt: new Date(bag.usedAtOf(item)),
          expiresAt: new Date(item.expiresAt),
          attributes: { ...item.attributes },
          ...(bag.session !== undefined && { session: bag.session }),
          ...(bag.account !== '' && { account: bag.account }),
          ...(item.secure && { secure: true as const }),
          ...(values && { value: structuredClone(item.value) }),
          ...(values && item.text !== undefined && { text: item.text }),
        });
      }
    }
    return entries.sort(byName);
  }

  #clearKnown(filter: JarFilter, matches: Matcher, epoch: number): number {
    let count = 0;
    for (const bag of this.#shelf.all()) {
      const scope = bag.isServerScope ? 'server' : 'session';
      if (filter.scope !== undefined && filter.scope !== scope) continue;
      if (matches.covers(bag.server)) bag.markCleared(epoch, filter.key);
      for (const [key, item] of bag.items) {
        if (!matches(scope, key, item)) continue;
        bag.remove(key);
        count++;
        this.#events.emit('deleted', { server: item.from, scope, key, by: 'clear' });
      }
    }
    return count;
  }
}

/** Compares by server, then scope, then key. */
function byName(one: JarEntry, other: JarEntry): number {
  for (const part of ['server', 'scope', 'key'] as const)
    if (one[part] !== other[part]) return one[part] < other[part] ? -1 : 1;
  return 0;
}
