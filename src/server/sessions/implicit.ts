import type { Link } from '../../link/instrument.ts';
import type { Exchange } from '../exchange.ts';
import { hold } from '../flow/lease.ts';
import { isHttp } from '../over-http.ts';
import { beginningRow, notBegun, prepare } from './beginning.ts';
import { lifetime, newSession } from './create.ts';
import { type Data, SessionData } from './data.ts';
import type { Endings } from './endings.ts';
import { type Asker, type Committed, type Held, isRefusal, type Keeping, metaOf, rowOf } from './held.ts';
import type { EndedSession } from './hooks.ts';
import type { SessionsSettings } from './options.ts';
import { digest, type Found, type Registry } from './registry.ts';
import { STAND_IN } from './row.ts';

/** What an implicit session lives in. */
export interface ImplicitOptions {
  readonly settings: SessionsSettings;
  /** Where sessions are kept that several instances serve; undefined where they share no store. */
  readonly shared: Shared | undefined;
}

interface Shared {
  readonly registry: Registry;
  readonly endings: Endings;
  readonly keeping: Keeping;
}

/** An implicit session, and where its changes are kept. */
export interface Implicit {
  readonly held: Held;
  commit(): Committed | Promise<Committed>;
  end(): Promise<void>;
}

/** A session that ends with the connection it stands for. */
interface Local {
  readonly id: string;
  readonly created: number;
  data: Data;
  seq: number;
  /** What the author's hook is still doing for it; until that is done no handler runs in it. */
  begun: Promise<void> | undefined;
}

const TRIES = 10;

/**
 * Sessions for clients that know none: the transport's own stands in. A connection and an HTTP session of the SDK's are
 * in this process, and so is what stands in for them; a session that only our HTTP edge proves is in the store.
 */
export class ImplicitSessions {
  readonly #options: ImplicitOptions;
  readonly #locals = new WeakMap<Link, Map<string, Local>>();
  /** Sessions in the store that this instance is about to begin, by id. */
  readonly #beginning = new Map<string, Promise<void>>();

  constructor(options: ImplicitOptions) {
    this.#options = options;
  }

  /** The session that stands in for a request; undefined where there is none, and none can be or need be. */
  open(
    exchange: Exchange,
    asker: Asker,
    { required }: { readonly required: boolean },
  ): Implicit | undefined | Promise<Implicit | undefined> {
    const { transportSession } = exchange;
    if (transportSession === undefined) return undefined;
    if (isElsewhere(exchange)) return this.#openShared(transportSession, asker, required);
    // What is in this process can wait until the handler asks for it.
    if (!required) return undefined;
    const local = this.#known(exchange, asker) ?? this.#begin(exchange, asker);
    return local.begun
      ? local.begun.then(() => this.#local(exchange, asker, local))
      : this.#local(exchange, asker, local);
  }

  /** As {@link open}, at once: only a session that is in this process and needs no hook of the author's to begin. */
  openNow(exchange: Exchange, asker: Asker): Implicit | undefined {
    const known = this.#known(exchange, asker);
    if (known) return known.begun ? undefined : this.#local(exchange, asker, known);
    const { onCreate } = this.#options.settings;
    if (exchange.transportSession === undefined || isElsewhere(exchange) || onCreate) return undefined;
    return this.#local(exchange, asker, this.#begin(exchange, asker));
  }

  /** What keeps a session from standing in for a request that needs none; handlers would go on without it, and lose what they set. */
  missing(exchange: Exchange): { readonly what: string; readonly next: string } {
    const asked = 'A handler has asked for the session of a client that knows none, and got undefined:';
    return isElsewhere(exchange) && !this.#options.shared
      ? {
          what: `${asked} there is no store in which one could stand in for the session of the transport.`,
          next: 'Give createValise a store that all instances share.',
        }
      : {
          what: `${asked} where there is an onCreate, one is prepared only for operations that need it.`,
          next: 'Name the operation in valise.requireSession().',
        };
  }

  /** Ends what stands in for a session that only our HTTP edge proves: its client has ended it. */
  async over(transportSession: string, subject: string | undefined): Promise<void> {
    await this.#options.shared?.endings.end(implicitId(transportSession, { subject }), 'closed');
  }

  closed(link: Link): void {
    for (const local of this.#locals.get(link)?.values() ?? []) {
      const told = local.begun
        ? local.begun.then(() => this.#tell(local, 'closed'))
        : this.#tell(local, 'closed');
      told.catch(() => undefined);
    }
    this.#locals.delete(link);
  }

  #known({ link }: Exchange, { subject = '' }: Asker): Local | undefined {
    return this.#locals.get(link)?.get(subject);
  }

  #begin({ link, transportSession }: Exchange, asker: Asker): Local {
    const { subject = '' } = asker;
    const { onCreate } = this.#options.settings;
    const local: Local = {
      id: implicitId(transportSession ?? '', asker),
      created: Date.now(),
      data: {},
      seq: 0,
      begun: undefined,
    };
    let ofLink = this.#locals.get(link);
    if (!ofLink) this.#locals.set(link, (ofLink = new Map()));
    const locals = ofLink.set(subject, local);
    if (!onCreate) return local;
    const held = this.#hold(local, asker);
    const beginning = async (): Promise<void> => {
      try {
        await onCreate(newSession(held, { implicit: true, parent: undefined }));
        local.data = held.data.merged();
        local.begun = undefined;
      } catch (error) {
        locals.delete(subject);
        throw error;
      }
    };
    local.begun = beginning();
    return local;
  }

  #hold({ id, created, data, seq }: Local, asker: Asker): Held {
    const { settings } = this.#options;
    const until = created + settings.maxLifetime * 1000;
    return {
      id,
      owner: asker.owner,
      shelf: '',
      label: undefined,
      created,
      expires: until,
      until,
      seq,
      data: new SessionData(data, settings.maxState),
      found: undefined,
    };
  }

  #local(exchange: Exchange, asker: Asker, local: Local): Implicit {
    const held = this.#hold(local, asker);
    return {
      held,
      commit: () => {
        if (!held.data.isChanged) return metaOf(held.id, held.expires, local.seq);
        if (local.seq !== held.seq && !held.data.rebase(local.data)) return 'conflict';
        local.data = held.data.kept();
        local.seq++;
        return metaOf(held.id, held.expires, local.seq);
      },
      end: async () => {
        // Handlers that run side by side may all take it back; it ends once.
        if (this.#known(exchange, asker) !== local) return;
        this.#locals.get(exchange.link)?.delete(asker.subject ?? '');
        await this.#tell(local, 'revoked');
      },
    };
  }

  async #tell({ id, data }: Local, reason: EndedSession['reason']): Promise<void> {
    const values = Object.hasOwn(data, '') ? data[''] : undefined;
    await this.#options.settings.onEnd?.({
      id,
      label: undefined,
      reason,
      get: (key) => (values && Object.hasOwn(values, key) ? values[key] : undefined),
    });
  }

  async #openShared(
    transportSession: string,
    asker: Asker,
    required: boolean,
  ): Promise<Implicit | undefined> {
    const { shared, settings } = this.#options;
    if (!shared) return undefined;
    const { endings, keeping } = shared;
    const id = implicitId(transportSession, asker);
    for (let tries = 0; tries < TRIES; tries++) {
      const opened = await keeping.open({ sessionId: id }, asker);
      if (!isRefusal(opened)) {
        return {
          held: opened,
          commit: () => keeping.commit(opened, asker),
          end: async () => void (await endings.end(id, 'revoked')),
        };
      }
      const held: Held = {
        ...lifetime(settings, asker),
        id,
        owner: asker.owner,
        shelf: '',
        label: undefined,
        seq: 0,
        data: new SessionData({}, settings.maxState),
        found: undefined,
      };
      if (!settings.onCreate) return this.#unwritten(shared, held);
      if (!required) return undefined;
      await this.#beginOnce(shared, held);
    }
    return undefined;
  }

  /** Nothing is written before there is something to keep. */
  #unwritten({ endings }: Shared, held: Held): Implicit {
    return {
      held,
      commit: async () => {
        const meta = metaOf(held.id, held.expires, held.seq);
        if (!held.data.isChanged) return meta;
        const row = rowOf(held, held.data.kept());
        return (await endings.claim(row)) ? meta : 'conflict';
      },
      end: async () => void (await endings.end(held.id, 'revoked')),
    };
  }

  /** Calls that come while a session begins wait for the same beginning. */
  #beginOnce(shared: Shared, held: Held): Promise<void> {
    const { id } = held;
    let beginning = this.#beginning.get(id);
    if (!beginning) {
      beginning = this.#beginShared(shared, held).finally(() => this.#beginning.delete(id));
      this.#beginning.set(id, beginning);
    }
    return beginning;
  }

  /** Other instances wait too. As with a session that a client creates, a row tells them all that one is being prepared. */
  async #beginShared({ registry, endings }: Shared, held: Held): Promise<void> {
    const { onCreate } = this.#options.settings;
    const lease = await hold(registry.store, `begin/${digest(held.id)}`);
    if (!lease) return;
    try {
      const begun = await endings.claim(beginningRow(held));
      if (!begun) return;
      let ready: Found;
      try {
        const begin = (): void | Promise<void> =>
          onCreate?.(newSession(held, { implicit: true, parent: undefined }));
        ready = await prepare({ registry, endings }, begun, begin);
      } catch (error) {
        await registry.remove(held.id);
        throw error;
      }
      const row = rowOf(held, held.data.merged());
      if ((await registry.save(row, ready)) === undefined) throw notBegun(await endings.endUnborn(row));
    } finally {
      await lease.release();
    }
  }
}

function implicitId(transportSession: string, { subject }: Pick<Asker, 'subject'>): string {
  return `${STAND_IN}${digest(JSON.stringify([transportSession, subject ?? null]))}`;
}

/** True where the session is proved by its seal alone, and any instance may serve it. */
function isElsewhere({ link, extra }: Exchange): boolean {
  return link.transport.sessionId === undefined && isHttp(extra);
}
