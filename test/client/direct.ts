import type { JarQuotas, Store } from 'mcp-valise/client';
import type { Params, Request } from 'mcp-valise/internal';
import { memoryStore } from 'mcp-valise/store';
import type { ClientEvents } from '../../src/client/events.ts';
import { type Identity, identify } from '../../src/client/identity/identity.ts';
import type { JarView } from '../../src/client/jar/entries.ts';
import { ClientJar } from '../../src/client/jar/jar.ts';
import { Events } from '../../src/core/events.ts';
import { setting, stateOf } from './hosts.ts';

/** A jar without clients and servers around it: what results say goes in, what requests would carry comes out. */
export interface Direct {
  readonly jar: ClientJar;
  readonly events: Events<ClientEvents>;
  /** Every event, in order, as `name key`. */
  readonly log: string[];
  at(url: string): Side;
}

/** One server's side of it. */
export interface Side {
  readonly view: JarView;
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
  const jar = new ClientJar({ store, principal, events, quotas });
  await jar.refresh();
  return {
    jar,
    events,
    log,
    at(url) {
      const identity = identify({ kind: 'http', url: new URL(url) }) as Identity;
      const view = jar.view(identity, { account: '', exact: true });
      return {
        view,
        async set(state, attributes) {
          const { _meta } = setting('legacy', state, attributes);
          await jar.receive(_meta, { view, session: view.session, epoch: jar.epoch });
        },
        sent(method = 'tools/list', params = {}) {
          const request: Request = { jsonrpc: '2.0', id: 1, method, params };
          void jar.ready(view, view.session);
          return stateOf(view.pick(request, 'legacy', view.session) ?? {});
        },
        leave: () => jar.leave(view),
      };
    },
  };
}
