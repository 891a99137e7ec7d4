import type { Link } from '../../link/instrument.ts';
import type { Exchange } from '../exchange.ts';
import { isHttp } from '../over-http.ts';
import { lifetime, newSession } from './create.ts';
import { type Data, SessionData } from './data.ts';
import type { Endings } from './endings.ts';
import { type Asker, type Committed, type Held, isRefusal, type Keeping, metaOf, rowOf } from './held.ts';
import type { EndedSession } from './hooks.ts';
import type { SessionsSettings } from './options.ts';
import { digest, type Registry } from './registry.ts';

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
}

const TRIES = 10;

/**
 * Sessions for clients that know none: the transport's own stands in. A connection and an HTTP session of the SDK's are
 * in this process, and so is what stands in for them; a session that only our HTTP edge proves is in the store.
 */
export class ImplicitSessions {
  readonly #options: ImplicitOptions;
  readonly #locals = new WeakMap<Link, Map<string, Local>>();

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
    const known = this.#locals.get(exchange.link)?.get(asker.subject ?? '');
    return known ? this.#local(exchange, asker, known) : this.#begin(exchange, asker);
  }

  /** As {@link open}, at once: only a session that is in this process and needs no hook of the author's to begin. */
  openNow(exchange: Exchange, asker: Asker): Implicit | undefined {
    const known = this.#locals.get(exchange.link)?.get(asker.subject ?? '');
    if (known) return this.#local(exchange, asker, known);
    const { onCreate } = this.#options.settings;
    if (exchange.transportSession === undefined || isElsewhere(exchange) || onCreate) return undefined;
    return this.#begin(exchange, asker) as Implicit;
  }

  closed(link: Link): void {
    for (const local of this.#locals.get(link)?.values() ?? [])
      this.#tell(local, 'closed').catch(() => undefined);
    this.#locals.delete(link);
  }

  #begin(exchange: Exchange, asker: Asker): Implicit | Promise<Implicit> {
    const { onCreate } = this.#options.settings;
    const local: Local = {
      id: implicitId(exchange.transportSession ?? '', asker),
      created: Date.now(),
      data: {},
      seq: 0,
    };
    const enter = (): Implicit => {
      let ofLink = this.#locals.get(exchange.link);
      if (!ofLink) this.#locals.set(exchange.link, (ofLink = new Map()));
      const known = ofLink.get(asker.subject ?? '') ?? local;
      ofLink.set(asker.subject ?? '', known);
      return this.#local(exchange, asker, known);
    };
    if (!onCreate) return enter();
    const held = this.#hold(local, asker);
    return Promise.resolve(onCreate(newSession(held, { implicit: true, parent: undefined }))).then(() => {
      local.data = held.data.merged();
      return enter();
    });
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
        local.data = held.data.merged();
        local.seq++;
        return metaOf(held.id, held.expires, local.seq);
      },
      end: async () => {
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
      await this.#beginShared(shared, held);
    }
    return undefined;
  }

  /** Nothing is written before there is something to keep. */
  #unwritten({ registry, endings }: Shared, held: Held): Implicit {
    return {
      held,
      commit: async () => {
        const meta = metaOf(held.id, held.expires, held.seq);
        if (!held.data.isChanged) return meta;
        const row = rowOf(held, held.data.merged());
        if (!(await registry.claim(row))) return 'conflict';
        await endings.watch(row);
        return meta;
      },
      end: async () => void (await endings.end(held.id, 'revoked')),
    };
  }

  async #beginShared({ registry, endings }: Shared, held: Held): Promise<void> {
    if (!(await registry.claim(rowOf(held, {})))) return;
    await this.#options.settings.onCreate?.(newSession(held, { implicit: true, parent: undefined }));
    const row = rowOf(held, held.data.merged());
    if (held.data.isChanged) await registry.replace(row);
    await endings.watch(row);
  }
}

function implicitId(transportSession: string, { subject }: Asker): string {
  return `implicit-${digest(JSON.stringify([transportSession, subject ?? null]))}`;
}

/** True where the session is proved by its seal alone, and any instance may serve it. */
function isElsewhere({ link, extra }: Exchange): boolean {
  return link.transport.sessionId === undefined && isHttp(extra);
}
