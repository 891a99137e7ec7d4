import { sha256 } from '../../sha256.ts';
import type { Exchange, ServerLink } from '../exchange.ts';
import { Quota } from '../quota.ts';
import { newSession } from './create.ts';
import { type Data, SessionData } from './data.ts';
import { type Committed, type Held, metaOf, type Requester } from './held.ts';
import type { EndedSession } from './hooks.ts';
import type { SessionsSettings } from './options.ts';
import { callerList, countState } from './registry.ts';
import { STAND_IN } from './row.ts';
import { tooMany } from './shelf.ts';

/** An implicit session, and how to save or end it. */
export interface Implicit {
  readonly held: Held;
  commit(): Committed | Promise<Committed>;
  end(): Promise<void>;
}

/** A session that ends with the connection that it stands in for. */
interface Local {
  readonly id: string;
  /** The key under which its state is counted. */
  readonly key: symbol;
  readonly created: number;
  data: Data;
  seq: number;
  /** Releases its place among the sessions of this process. */
  readonly leave: () => void;
  /** The pending `onCreate` call. No handler runs in the session until it is done. */
  begun: Promise<void> | undefined;
}

/** Implicit sessions in this process, like the connection or the SDK's HTTP session that they stand in for. */
export class LocalSessions {
  readonly #settings: SessionsSettings;
  readonly #locals = new WeakMap<ServerLink, Map<string, Local>>();
  readonly #ofNobody: Quota;
  readonly #ofPrincipals: Quota;
  readonly #states: Quota;

  /** Creates the collection. `states` counts the bytes of state in anonymous sessions. */
  constructor(settings: SessionsSettings, states: Quota) {
    this.#states = states;
    this.#settings = settings;
    const { maxAnonymous, maxAnonymousPerCaller, maxPerPrincipal } = settings;
    this.#ofNobody = new Quota({
      perCaller: { count: maxAnonymousPerCaller },
      total: { count: maxAnonymous },
    });
    this.#ofPrincipals = new Quota({ perCaller: { count: maxPerPrincipal }, total: {} });
  }

  /** Returns the session of a connection and subject. Throws if there are too many already. */
  open(exchange: Exchange, requester: Requester): Implicit | Promise<Implicit> {
    const local = this.#known(exchange, requester) ?? this.#begin(exchange, requester);
    return local.begun
      ? local.begun.then(() => this.#local(exchange, requester, local))
      : this.#local(exchange, requester, local);
  }

  /** Works as {@link open}, but synchronously. Returns undefined if an author's hook must be awaited. */
  openNow(exchange: Exchange, requester: Requester): Implicit | undefined {
    const known = this.#known(exchange, requester);
    if (known) return known.begun ? undefined : this.#local(exchange, requester, known);
    return this.#settings.onCreate
      ? undefined
      : this.#local(exchange, requester, this.#begin(exchange, requester));
  }

  #closed(link: ServerLink): void {
    for (const local of this.#locals.get(link)?.values() ?? []) {
      local.leave();
      const told = local.begun
        ? local.begun.then(() => this.#tell(local, 'closed'))
        : this.#tell(local, 'closed');
      told.catch(() => undefined);
    }
    this.#locals.delete(link);
  }

  #known({ link }: Exchange, { subject = '' }: Requester): Local | undefined {
    return this.#locals.get(link)?.get(subject);
  }

  /** Begins a session. Throws if there are too many already. */
  #begin({ link, transportSession }: Exchange, requester: Requester): Local {
    const { subject = '' } = requester;
    const { onCreate } = this.#settings;
    const leave = this.#place(requester);
    const key = Symbol('stand-in');
    const local: Local = {
      key,
      leave: () => {
        leave();
        this.#states.release(key);
      },
      id: implicitId(transportSession ?? '', requester),
      created: Date.now(),
      data: {},
      seq: 0,
      begun: undefined,
    };
    let ofLink = this.#locals.get(link);
    if (!ofLink) {
      this.#locals.set(link, (ofLink = new Map()));
      link.closed.addEventListener('abort', () => this.#closed(link));
    }
    const locals = ofLink.set(subject, local);
    if (!onCreate) return local;
    const held = this.#hold(local, requester);
    const beginning = async (): Promise<void> => {
      try {
        await onCreate(newSession(held, { implicit: true, parent: undefined }));
        this.#keep(local, requester, held.data.merged());
        local.begun = undefined;
      } catch (error) {
        locals.delete(subject);
        local.leave();
        throw error;
      }
    };
    local.begun = beginning();
    return local;
  }

  #place({ subject, caller }: Requester): () => void {
    const place = (subject === undefined ? this.#ofNobody : this.#ofPrincipals).take(caller);
    if (typeof place === 'function') return place;
    if (subject !== undefined) throw tooMany('sessions.maxPerPrincipal');
    throw tooMany(`sessions.maxAnonymous${place === 'caller-count' ? 'PerCaller' : ''}`);
  }

  /** Saves the state. Throws if the session is anonymous and exceeds the limit. */
  #keep(local: Local, { subject, caller }: Requester, data: Data): void {
    if (subject === undefined) {
      const bytes = Buffer.byteLength(JSON.stringify(data));
      countState(this.#states, { name: callerList(caller), isAnonymous: true }, { key: local.key, bytes });
    }
    local.data = data;
  }

  #hold({ id, created, data, seq }: Local, requester: Requester): Held {
    const until = created + this.#settings.maxLifetime * 1000;
    return {
      id,
      owner: requester.owner,
      shelf: '',
      label: undefined,
      created,
      expires: until,
      until,
      seq,
      data: new SessionData(data, this.#settings),
      found: undefined,
    };
  }

  #local(exchange: Exchange, requester: Requester, local: Local): Implicit {
    const held = this.#hold(local, requester);
    return {
      held,
      commit: () => {
        if (!held.data.isChanged) return metaOf(held.id, held.expires, local.seq);
        if (local.seq !== held.seq && !held.data.rebase(local.data)) return 'conflict';
        this.#keep(local, requester, held.data.kept());
        local.seq++;
        return metaOf(held.id, held.expires, local.seq);
      },
      end: async () => {
        // Handlers that run in parallel may all revoke it. It ends only once.
        if (this.#known(exchange, requester) !== local) return;
        this.#locals.get(exchange.link)?.delete(requester.subject ?? '');
        local.leave();
        await this.#tell(local, 'revoked');
      },
    };
  }

  async #tell({ id, data }: Local, reason: EndedSession['reason']): Promise<void> {
    const values = Object.hasOwn(data, '') ? data[''] : undefined;
    await this.#settings.onEnd?.({
      id,
      label: undefined,
      reason,
      get: (key) => (values && Object.hasOwn(values, key) ? values[key] : undefined),
    });
  }
}

/** Returns the id of the session that stands in for a transport's session. */
export function implicitId(transportSession: string, { subject }: Pick<Requester, 'subject'>): string {
  return `${STAND_IN}${sha256(JSON.stringify([transportSession, subject ?? null]))}`;
}
