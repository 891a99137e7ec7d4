import { rawMark } from '../../link/top.ts';
import {
  type Dict,
  dict,
  type Era,
  type Meta,
  methodPath,
  type Request,
  scopeCovers,
  writeState,
} from '../../wire/index.ts';
import type { Identity } from '../identity.ts';
import type { Bag, Viewer } from './bag.ts';

type Fragments = { [spelling in Era]: Meta | undefined | typeof UNKNOWN };

/** Marks a fragment that is not built yet. Undefined is an empty fragment. */
const UNKNOWN = null;

/** The properties of a seat that never change. */
export interface SeatFacts {
  /** The account that state is sent for; see `Account`. */
  readonly account: string;
  /** Whether the transport reads and writes numbers exactly. */
  readonly exact: boolean;
}

/** One connection's view of the jar: the bags of its server and of its session. */
export class Seat implements Viewer {
  readonly identity: Identity;
  readonly account: string;
  readonly exact: boolean;
  /** The server-scope bags: the host's own first, then those of its parent domains, narrowest first. */
  readonly bags: readonly Bag[];
  /** The session-scope bag, for requests that belong to no session of their own. */
  session: Bag;
  /** The object that has the id of the transport's session, once there is a connection. */
  transport: { readonly sessionId?: string | undefined } | undefined;
  /** The id of the transport's session that {@link session} belongs to. */
  transportSession: string | undefined;
  usedAt = 0;
  readonly #tidy: (bag: Bag, now: number) => number;
  /** When the cached fragments become invalid if nothing changes, and the session and revision they are for. */
  #goodUntil = 0;
  #goodFor: Bag | undefined;
  #goodRevision = 0;
  readonly #fragments: Fragments = { legacy: UNKNOWN, modern: UNKNOWN };

  /** `tidy` removes the expired items of a bag and returns when to call it again. */
  constructor(
    identity: Identity,
    { account, exact }: SeatFacts,
    bags: readonly Bag[],
    session: Bag,
    tidy: (bag: Bag, now: number) => number,
  ) {
    this.identity = identity;
    this.account = account;
    this.exact = exact;
    this.bags = bags;
    this.session = session;
    this.#tidy = tidy;
    for (const bag of bags) bag.watch(this);
  }

  changed(): void {
    this.#goodUntil = 0;
  }

  /**
   * Returns the `_meta` fragment to send with a request. If nothing has a method scope, the fragment is cached until
   * something changes, regardless of what else the jar holds.
   */
  pick(request: Request, spelling: Era, session: Bag): Meta | undefined {
    const now = Date.now();
    this.usedAt = now;
    session.usedAt = now;
    if (now >= this.#goodUntil || session !== this.#goodFor || session.revision !== this.#goodRevision)
      this.#prepare(session, now);
    const known = this.#fragments[spelling];
    if (known !== UNKNOWN) return known;
    const fragment = this.#write(request, spelling, session, now);
    if (this.#goodUntil > 0) this.#fragments[spelling] = fragment;
    return fragment;
  }

  /** Returns the fragment to send with `initialize`, before the session has begun. */
  pickServer(request: Request, spelling: Era): Meta | undefined {
    const now = Date.now();
    this.usedAt = now;
    for (const bag of this.bags) this.#tidy(bag, now);
    return writeState(spelling, { server: this.#server(methodPath(request.method, request.params), now) });
  }

  #prepare(session: Bag, now: number): void {
    let until = this.#tidy(session, now);
    for (const bag of this.bags) until = Math.min(until, this.#tidy(bag, now));
    const isScoped = session.isScoped || this.bags.some((bag) => bag.isScoped);
    this.#goodUntil = isScoped ? 0 : until;
    this.#goodFor = session;
    this.#goodRevision = session.revision;
    this.#fragments.legacy = UNKNOWN;
    this.#fragments.modern = UNKNOWN;
  }

  #write(request: Request, spelling: Era, session: Bag, now: number): Meta | undefined {
    const path = methodPath(request.method, request.params);
    return writeState(spelling, { session: this.#sent(session, path, now), server: this.#server(path, now) });
  }

  /** Merges the server-scope bags. If two have the same name, the narrower bag wins. */
  #server(path: string, now: number): Dict {
    const full = this.bags.filter((bag) => bag.items.size > 0);
    if (full.length === 1) return this.#sent(full[0] as Bag, path, now);
    const all = dict();
    for (const bag of full.reverse()) Object.assign(all, this.#sent(bag, path, now));
    return all;
  }

  /** Returns the items of a bag to send with a request of this path. */
  #sent(bag: Bag, path: string, now: number): Dict {
    const { plain, scoped, exact, hasSecure } = bag.view();
    const covered = scoped.filter((name) =>
      scopeCovers(bag.items.get(name)?.attributes.methodScope ?? '', path),
    );
    const isOpen = hasSecure && this.identity.secure === false;
    if (covered.length === 0 && exact.length === 0 && !isOpen) return plain;
    const all = Object.assign(dict(), plain);
    for (const name of [...exact, ...covered]) {
      const item = bag.items.get(name);
      // If the transport cannot write the text, a number would arrive changed.
      if (!item || (item.text !== undefined && !this.exact)) continue;
      all[name] = item.text === undefined ? item.value : rawMark(item.text);
      if (item.attributes.methodScope !== undefined) bag.renew(name, { ...item, usedAt: now });
    }
    // As with a Secure cookie, items that arrived over https are not sent over http, where anyone on the path can read
    // them.
    if (isOpen) for (const name in all) if (bag.items.get(name)?.secure) delete all[name];
    return all;
  }
}
