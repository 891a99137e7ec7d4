import type { JarQuotas, Store } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import type { Params, Request } from 'mcp-valise/wire';
import type { ClientEvents } from '../../src/client/events.ts';
import { type Identity, identify } from '../../src/client/identity.ts';
import { ClientJar } from '../../src/client/jar/jar.ts';
import type { Seat } from '../../src/client/jar/seat.ts';
import { Shelf } from '../../src/client/jar/shelf.ts';
import { Events } from '../../src/events.ts';
import { setting, stateOf } from './hosts.ts';

/** A jar without clients and servers around it: what results say goes in, what requests would carry comes out. */
export interface Direct {
  readonly jar: ClientJar;
  readonly shelf: Shelf;
  readonly events: Events<ClientEvents>;
  /** Every event, in order, as `name key`. */
  readonly log: string[];
  at(url: string): Side;
}

/** One server's side of it. */
export interface Side {
  readonly seat: Seat;
  set(state: { readonly session?: object; readonly server?: object }, attributes?: object): Promise<void>;
  sent(method?: string, params?: Params): { readonly session?: object; readonly server?: object };
  leave(): void;
}

export async function openDirect({
  store = memoryStore(),
  quotas,
  principal = '',
}: {
  store?: Store;
  quotas?: JarQuotas;
  principal?: string;
} = {}): Promise<Direct> {
  const events = new Events<ClientEvents>();
  const log: string[] = [];
  for (const name of ['set', 'deleted', 'evicted', 'refused'] as const)
    events.on(name, ({ key }) => log.push(`${name} ${key}`));
  const shelf = new Shelf({ store, principal, events, quotas });
  await shelf.refresh();
  return {
    jar: new ClientJar(shelf, events),
    shelf,
    events,
    log,
    at(url) {
      const identity = identify({ kind: 'http', url: new URL(url) }) as Identity;
      const seat = shelf.seat(identity, { account: '', exact: true });
      return {
        seat,
        async set(state, attributes) {
          const { _meta } = setting('legacy', state, attributes);
          await shelf.take(_meta, { seat, session: seat.session, epoch: shelf.epoch });
        },
        sent(method = 'tools/list', params = {}) {
          const request: Request = { jsonrpc: '2.0', id: 1, method, params };
          return stateOf(seat.pick(request, 'legacy', seat.session) ?? {});
        },
        leave: () => shelf.leave(seat),
      };
    },
  };
}
