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
import type { EntrySet } from './entry-set.ts';

/** The properties of a view that never change. */
export interface ViewFacts {
  readonly identity: Identity;
  /** The account that state is sent for; see `Account`. */
  readonly account: string;
  /** Whether the transport reads and writes numbers exactly. */
  readonly exact: boolean;
  /** The server-scope sets: the host's own first, then those of its parent domains, narrowest first. */
  readonly sets: readonly EntrySet[];
}

/** One connection's view of the jar: the entries of its server and of its session. */
export class JarView {
  readonly identity: Identity;
  readonly account: string;
  readonly exact: boolean;
  readonly sets: readonly EntrySet[];
  /** The session-scope set, for requests that belong to no session of their own. */
  session: EntrySet;
  /** The object that has the id of the transport's session, once there is a connection. */
  transport: { readonly sessionId?: string | undefined } | undefined;
  /** The id of the transport's session that {@link session} belongs to. */
  transportSession: string | undefined;

  constructor({ identity, account, exact, sets }: ViewFacts, session: EntrySet) {
    this.identity = identity;
    this.account = account;
    this.exact = exact;
    this.sets = sets;
    this.session = session;
    for (const set of sets) set.connections++;
  }

  /**
   * Returns the `_meta` fragment to send with a request. If two sets have the same name, the narrower one wins. `initialize`
   * comes before there is a session.
   */
  pick(request: Request, spelling: Era, session: EntrySet): Meta | undefined {
    const now = Date.now();
    let server: Dict | undefined;
    for (const set of this.sets) {
      const sent = this.#sent(set, request, now);
      if (sent) server = server ? Object.assign(dict(), sent, server) : sent;
    }
    if (request.method === 'initialize') return writeState(spelling, { server });
    return writeState(spelling, { session: this.#sent(session, request, now), server });
  }

  /** Returns the entries of a set to send with a request. */
  #sent(set: EntrySet, { method, params }: Request, now: number): Dict | undefined {
    set.usedAt = now;
    if (set.entries.size === 0) return undefined;
    const { plain, conditional, hasSecure } = set.sending();
    const isOpen = hasSecure && this.identity.secure === false;
    if (conditional.length === 0 && !isOpen) return plain;
    const all = Object.assign(dict(), plain);
    const path = methodPath(method, params);
    for (const name of conditional) {
      const entry = set.entries.get(name);
      // If the transport cannot write the text, a number would arrive changed.
      if (!entry || (entry.text !== undefined && !this.exact)) continue;
      const { methodScope } = entry.attributes;
      if (methodScope !== undefined && !scopeCovers(methodScope, path)) continue;
      all[name] = entry.text === undefined ? entry.value : rawMark(entry.text);
      if (methodScope !== undefined) set.renew(name, { ...entry, usedAt: now });
    }
    // As with a Secure cookie, entries that arrived over https are not sent over http, where anyone on the path can read
    // them.
    if (isOpen) for (const name in all) if (set.entries.get(name)?.secure) delete all[name];
    return all;
  }
}
