import { sha256 } from '../../sha256.ts';
import { holdLease } from '../../store/kit/lease.ts';
import type { Carrier } from '../carriers/types.ts';
import type { Exchange } from '../exchange.ts';
import { isHttp } from '../peer.ts';
import type { Quota } from '../quota.ts';
import { beginningRow, notBegun, prepare } from './beginning.ts';
import { lifetime, newSession } from './create.ts';
import { SessionData } from './data.ts';
import type { Endings } from './endings.ts';
import { type Held, isRefusal, type Keeping, metaOf, type Requester, rowOf } from './held.ts';
import { type Implicit, implicitId, LocalSessions } from './implicit-local.ts';
import type { SessionsSettings } from './options.ts';
import type { Found, Registry } from './registry.ts';
import { roomFor } from './room.ts';

/** Options of `ImplicitSessions`. */
export interface ImplicitOptions {
  readonly settings: SessionsSettings;
  /** Counts the bytes of state in anonymous sessions. */
  readonly states: Quota;
  /** The storage of sessions that belong to no connection. Without a store it is in memory, for carriers that allow it. */
  readonly shared: Shared;
}

interface Shared {
  readonly registry: Registry;
  readonly endings: Endings;
  readonly keeping: Keeping;
}

const TRIES = 10;
/** Timing of the lease that limits a beginning to one instance, in seconds. A dead instance blocks others for one `ttl`. */
const BEGINNING = { ttl: 15, wait: 20 };

/**
 * Sessions for clients that do not support them: what carries their state stands in.
 *
 * A principal, a conversation and a handle each have a default session in the store, as does a transport session that only our
 * HTTP edge proves. The stand-in for a connection or for an HTTP session of the SDK is in this process, as they are.
 */
export class ImplicitSessions {
  readonly #options: ImplicitOptions;
  /** Sessions in the store that this instance is beginning, by id. */
  readonly #beginning = new Map<string, Promise<void>>();
  readonly #local: LocalSessions;

  constructor(options: ImplicitOptions) {
    this.#options = options;
    this.#local = new LocalSessions(options.settings, options.states);
  }

  /** Returns the session that stands in for a request, or undefined if there is none and none can or need be created. */
  open(
    exchange: Exchange,
    requester: Requester,
    { required }: { readonly required: boolean },
  ): Implicit | undefined | Promise<Implicit | undefined> {
    const shared = sharedName(exchange);
    if (shared !== undefined) return this.#openShared(shared, exchange, requester, required);
    // A session in this process can wait until the handler asks for it.
    if (!required || exchange.transportSession === undefined) return undefined;
    return this.#local.open(exchange, requester);
  }

  /** Works as {@link open}, but synchronously, for sessions in this process that need no author's hook to begin. */
  openNow(exchange: Exchange, requester: Requester): Implicit | undefined {
    return exchange.transportSession === undefined || sharedName(exchange) !== undefined
      ? undefined
      : this.#local.openNow(exchange, requester);
  }

  /**
   * Explains why no session stands in for a request.
   *
   * The request does not require one, so its handler continues without it and loses what it sets.
   */
  missing(exchange: Exchange): { readonly what: string; readonly next: string } {
    const asked = 'A handler has asked for the session of a client that knows none, and got undefined:';
    return sharedName(exchange) !== undefined && exchange.carrier.store === undefined
      ? {
          what: `${asked} there is no store in which one could stand in for the session of the transport.`,
          next: 'Give createValise a store that all instances share.',
        }
      : {
          what: `${asked} where there is an onCreate, one is prepared only for operations that need it.`,
          next: 'Name the operation in valise.sessions.require().',
        };
  }

  /** Ends the stand-in for a session that only our HTTP edge proves, because its client has ended that session. */
  async over(transportSession: string, subject: string | undefined): Promise<void> {
    await this.#options.shared.endings.end(implicitId(transportSession, { subject }), 'closed');
  }

  async #openShared(
    name: string,
    { carrier }: Exchange,
    requester: Requester,
    required: boolean,
  ): Promise<Implicit | undefined> {
    const { shared, settings } = this.#options;
    if (!carrier.store) return undefined;
    const { endings, keeping } = shared;
    const id = implicitId(name, requester);
    for (let tries = 0; tries < TRIES; tries++) {
      const isNew = carrier.isNew && tries === 0;
      const opened = isNew ? undefined : await keeping.open({ sessionId: id }, requester);
      if (opened && !isRefusal(opened)) {
        return {
          held: opened,
          commit: () => keeping.commit(opened, requester),
          end: async () => void (await endings.end(id, 'revoked')),
        };
      }
      const held: Held = {
        ...lifetime(settings, requester),
        id,
        owner: requester.owner,
        shelf: '',
        label: undefined,
        seq: 0,
        data: new SessionData({}, settings),
        found: undefined,
      };
      if (!settings.onCreate) return this.#unwritten(carrier, held, requester);
      if (!required) return undefined;
      await carrier.begin?.();
      await this.#beginOnce(shared, held, requester);
    }
    return undefined;
  }

  /** Returns a session that is not written before there is something to save. */
  #unwritten(carrier: Carrier, held: Held, requester: Requester): Implicit {
    const { shared } = this.#options;
    const { endings } = shared;
    return {
      held,
      commit: async () => {
        const meta = metaOf(held.id, held.expires, held.seq);
        if (!held.data.isChanged) return meta;
        const data = held.data.kept();
        await carrier.begin?.();
        const placed = await this.#reserve(shared, held, requester);
        return (await endings.claim(rowOf(placed, data))) ? meta : 'conflict';
      },
      end: async () => void (await endings.end(held.id, 'revoked')),
    };
  }

  /** Takes the session's places in the lists that limit how many there are. */
  async #reserve({ registry, endings }: Shared, held: Held, requester: Requester): Promise<Held> {
    const { shelf, places, caps } = roomFor(this.#options.settings, requester, {
      id: held.id,
      implicit: true,
    });
    for (const old of await registry.reserve(held, caps)) await endings.end(old, 'evicted');
    return { ...held, shelf, places };
  }

  /** Begins a session once. Calls that come meanwhile wait for the same beginning. */
  #beginOnce(shared: Shared, held: Held, requester: Requester): Promise<void> {
    const { id } = held;
    let beginning = this.#beginning.get(id);
    if (!beginning) {
      beginning = this.#beginShared(shared, held, requester).finally(() => this.#beginning.delete(id));
      this.#beginning.set(id, beginning);
    }
    return beginning;
  }

  /** Begins a session in the store. A record tells other instances that it is being prepared. */
  async #beginShared(shared: Shared, unplaced: Held, requester: Requester): Promise<void> {
    const { registry, endings } = shared;
    const { onCreate } = this.#options.settings;
    const lease = await holdLease(registry.store, `begin/${sha256(unplaced.id)}`, BEGINNING);
    if (!lease) return;
    try {
      const held = await this.#reserve(shared, unplaced, requester);
      const begun = await endings.claim(beginningRow(held));
      if (!begun) return;
      let ready: Found;
      try {
        const begin = (): void | Promise<void> =>
          onCreate?.(newSession(held, { implicit: true, parent: undefined }));
        ready = await prepare({ registry, endings }, begun, begin);
      } catch (error) {
        await registry.drop(held);
        throw error;
      }
      const row = rowOf(held, held.data.merged());
      if ((await registry.save(row, ready)) === undefined) throw notBegun(await endings.endUnborn(row));
    } finally {
      await lease.release();
    }
  }
}

/**
 * Returns the name of the stand-in that any instance may serve, or undefined if it ends with a connection of this process.
 *
 * A principal's conversations have one each. A transport session without a `sessionId` of the SDK is proved by its seal alone.
 */
function sharedName({ carrier, transportSession, link, extra }: Exchange): string | undefined {
  const { kind, principal, thread, store } = carrier;
  if (thread !== null && thread !== transportSession) return thread;
  if (principal !== null && kind !== 'client' && store) return 'default';
  return link.transport.sessionId === undefined && isHttp(extra) ? transportSession : undefined;
}
