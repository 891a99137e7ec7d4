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
import type { Bag } from './bag.ts';

interface Prepared {
  readonly revision: number;
  readonly session: Bag;
  readonly fragments: { [era in Era]?: Meta | undefined };
}

/** What one connection sees of the jar: its server's bags and its session's. */
export class Seat {
  readonly identity: Identity;
  /** Server scope: the host's own bag first, then those of the domains above it, the narrowest first. */
  readonly bags: readonly Bag[];
  /** Session scope, where the request belongs to no session of its own. */
  session: Bag;
  /** The id of the transport's session that {@link session} belongs to. */
  transportSession: string | undefined;
  readonly #tidy: (bag: Bag, now: number) => void;
  #prepared: Prepared | undefined;

  /** `tidy` is asked to rid a bag of what is over. */
  constructor(identity: Identity, bags: readonly Bag[], session: Bag, tidy: (bag: Bag, now: number) => void) {
    this.identity = identity;
    this.bags = bags;
    this.session = session;
    this.#tidy = tidy;
  }

  /**
   * The `_meta` fragment that goes with a request. Where nothing has a method scope it is made once and stays good until
   * something changes, whatever else the jar holds.
   */
  pick(request: Request, era: Era, session: Bag): Meta | undefined {
    const now = Date.now();
    let revision = this.#use(session, now);
    for (const bag of this.bags) revision += this.#use(bag, now);
    let prepared = this.#prepared;
    if (prepared?.session !== session || prepared.revision !== revision) {
      prepared = { revision, session, fragments: {} };
      this.#prepared = this.#isScoped(session) ? undefined : prepared;
    }
    return era in prepared.fragments
      ? prepared.fragments[era]
      : (prepared.fragments[era] = this.#write(request, era, session, now));
  }

  /** What goes with `initialize`: the session has not begun. */
  pickServer(request: Request, era: Era): Meta | undefined {
    const now = Date.now();
    for (const bag of this.bags) this.#use(bag, now);
    return writeState(era, { server: this.#server(methodPath(request.method, request.params), now) });
  }

  #use(bag: Bag, now: number): number {
    this.#tidy(bag, now);
    bag.usedAt = now;
    return bag.revision;
  }

  #isScoped(session: Bag): boolean {
    return session.view().scoped.length > 0 || this.bags.some((bag) => bag.view().scoped.length > 0);
  }

  #write(request: Request, era: Era, session: Bag, now: number): Meta | undefined {
    const path = methodPath(request.method, request.params);
    return writeState(era, { session: sent(session, path, now), server: this.#server(path, now) });
  }

  /** The narrower bag wins where two have a name. */
  #server(path: string, now: number): Dict {
    const full = this.bags.filter((bag) => bag.items.size > 0);
    if (full.length === 1) return sent(full[0] as Bag, path, now);
    const all = dict();
    for (const bag of full.reverse()) Object.assign(all, sent(bag, path, now));
    return all;
  }
}

/** What of a bag goes with a request of this path. */
function sent(bag: Bag, path: string, now: number): Dict {
  const { plain, scoped } = bag.view();
  const covered = scoped.filter((name) =>
    scopeCovers(bag.items.get(name)?.attributes.methodScope ?? '', path),
  );
  if (covered.length === 0) return plain;
  const all = Object.assign(dict(), plain);
  for (const name of covered) {
    const item = bag.items.get(name);
    if (!item) continue;
    all[name] = item.value;
    bag.renew(name, { ...item, usedAt: now });
  }
  return all;
}
