import { sha256 } from '../../core/sha256.ts';
import { holdLease } from '../../store/kit/lease.ts';
import type { Carrier } from '../carriers/types.ts';
import type { Exchange } from '../exchange.ts';
import { isHttp } from '../peer.ts';
import { isRefusal, metaOf, type OpenSession, type Requester } from './backend.ts';
import { ConnectionSessions } from './connection-sessions.ts';
import { type CreateOptions, newRecord, prepare, preparing } from './create.ts';
import { DEFAULT_ID, type SessionRecord } from './records.ts';
import type { ActiveSession } from './request-session.ts';
import { SessionState } from './session-state.ts';

/** How often a session is opened that others begin or end at the same time. */
const TRIES = 10;
/** Timing of the lease that limits a preparation to one instance, in seconds. A dead instance blocks others for one `ttl`. */
const PREPARATION = { ttl: 15, wait: 20 };

/**
 * Sessions of clients that do not support them.
 *
 * A principal, a conversation and a handle each have a default session in the store, as does a transport session that only our
 * HTTP edge proves. The default session of a connection, or of an HTTP session of the SDK, is in this process, as they are.
 */
export class DefaultSessions {
  readonly #options: CreateOptions;
  readonly #connections: ConnectionSessions;
  /** The sessions that this instance is preparing, by id. */
  readonly #preparing = new Map<string, Promise<void>>();

  /** Creates the default sessions. Those in the store use the stored backend, whichever backend other sessions use. */
  constructor(options: CreateOptions) {
    this.#options = options;
    this.#connections = new ConnectionSessions(options.settings, options.records);
  }

  /** Returns the default session of a request, or undefined if there is none and none can or need be created. */
  async open(
    exchange: Exchange,
    requester: Requester,
    { isRequired }: { readonly isRequired: boolean },
  ): Promise<ActiveSession | undefined> {
    const { carrier, transportSession } = exchange;
    const name = sharedName(exchange);
    if (name !== undefined)
      return carrier.store && this.#openStored(defaultId(name, requester), carrier, requester, isRequired);
    // A session in this process can wait until the handler asks for it.
    if (!isRequired || transportSession === undefined) return undefined;
    return this.#connections.open(exchange, requester, defaultId(transportSession, requester));
  }

  /** Works as {@link open}, but synchronously, for sessions in this process that need no author's hook to begin. */
  openNow(exchange: Exchange, requester: Requester): ActiveSession | undefined {
    const { transportSession } = exchange;
    return transportSession === undefined || sharedName(exchange) !== undefined
      ? undefined
      : this.#connections.openNow(exchange, requester, defaultId(transportSession, requester));
  }

  /**
   * Explains why a request has no default session.
   *
   * The request does not require one, so its handler continues without it and loses what it sets.
   */
  explain(exchange: Exchange): { readonly what: string; readonly next: string } {
    const asked =
      'A handler asked for the session of a client that does not support sessions, and got undefined:';
    return sharedName(exchange) !== undefined && exchange.carrier.store === undefined
      ? {
          what: `${asked} there is no store for a default session.`,
          next: 'Give createValise a store that all instances share.',
        }
      : {
          what: `${asked} with onCreate, a default session is prepared only for operations that require one.`,
          next: 'Declare the operation with valise.sessions.require().',
        };
  }

  /** Ends the default session of a transport session that only our HTTP edge proves, because its client has ended that one. */
  async end(transportSession: string, subject: string | undefined): Promise<void> {
    await this.#options.expiry.end(defaultId(transportSession, { subject }), 'closed');
  }

  async #openStored(
    id: string,
    carrier: Carrier,
    requester: Requester,
    isRequired: boolean,
  ): Promise<ActiveSession | undefined> {
    const { settings, backend, expiry } = this.#options;
    const end = () => expiry.end(id, 'revoked');
    for (let tries = 0; tries < TRIES; tries++) {
      const isNew = carrier.isNew && tries === 0;
      const opened = isNew ? undefined : await backend.open({ sessionId: id }, requester);
      if (opened && !isRefusal(opened))
        return { session: opened, isDefault: true, commit: () => backend.commit(opened, requester), end };
      const session: OpenSession = {
        record: newRecord(settings, id, requester.owner),
        state: new SessionState({}, settings),
        stored: undefined,
      };
      if (!settings.onCreate)
        return { session, isDefault: true, commit: () => this.#insert(session, carrier, requester), end };
      if (!isRequired) return undefined;
      await carrier.begin?.();
      await this.#prepareOnce(session, requester);
    }
    return undefined;
  }

  /** Writes a session once there is something to save. */
  async #insert({ record, state }: OpenSession, carrier: Carrier, requester: Requester) {
    if (!state.isChanged) return metaOf(record);
    const data = state.checked();
    await carrier.begin?.();
    const placed = await this.#reserve(record, requester);
    return (await this.#options.expiry.succeed({ ...placed, data })) ? metaOf(record) : 'conflict';
  }

  /** Adds the session to the lists that limit how many there are. */
  async #reserve(record: SessionRecord, requester: Requester): Promise<SessionRecord> {
    const { index, expiry } = this.#options;
    const placement = index.placementOf(requester, { id: record.id, isDefault: true });
    for (const old of await index.add(record, placement)) await expiry.end(old, 'evicted');
    return { ...record, index: placement.index, places: placement.places };
  }

  /** Prepares a session once. Calls that come meanwhile wait for the same preparation. */
  #prepareOnce(session: OpenSession, requester: Requester): Promise<void> {
    const { id } = session.record;
    let prepared = this.#preparing.get(id);
    if (!prepared) {
      prepared = this.#prepare(session, requester).finally(() => this.#preparing.delete(id));
      this.#preparing.set(id, prepared);
    }
    return prepared;
  }

  /** Prepares a session in the store. A record tells other instances that it is being prepared. */
  async #prepare({ record: unplaced, state }: OpenSession, requester: Requester): Promise<void> {
    const { records, expiry } = this.#options;
    const lease = await holdLease(records.store, `begin/${sha256(unplaced.id)}`, PREPARATION);
    if (!lease) return;
    try {
      const record = await this.#reserve(unplaced, requester);
      const added = await expiry.succeed(preparing(record));
      if (!added) return;
      await prepare(this.#options, { record, state, stored: undefined }, added, {
        isDefault: true,
        begin: async () => ({ record: { ...record, data: state.merged() } }),
      });
    } finally {
      await lease.release();
    }
  }
}

/** Returns the id of the default session of a transport session, conversation, handle or principal. */
function defaultId(name: string, { subject }: Pick<Requester, 'subject'>): string {
  return `${DEFAULT_ID}${sha256(JSON.stringify([name, subject ?? null]))}`;
}

/**
 * Returns the name of the default session that any instance may serve, or undefined if it ends with a connection of this
 * process.
 *
 * A principal's conversations have one each. A transport session without a `sessionId` of the SDK is proved by its seal alone.
 */
function sharedName({ carrier, transportSession, link, extra }: Exchange): string | undefined {
  const { kind, principal, thread, store } = carrier;
  if (thread !== null && thread !== transportSession) return thread;
  if (principal !== null && kind !== 'client' && store) return 'default';
  return link.transport.sessionId === undefined && isHttp(extra) ? transportSession : undefined;
}
