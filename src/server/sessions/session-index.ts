import type { ValiseError } from '../../core/errors.ts';
import { sha256 } from '../../core/sha256.ts';
import { addToAll, type Cap, CappedList, type CappedListOptions, shardOf } from '../capped-list.ts';
import { type Caller, CallerLimitError, shareOf } from '../quota.ts';
import { Recent } from '../recent.ts';
import type { Requester } from './backend.ts';
import { tooMany } from './errors.ts';
import type { SessionsSettings } from './options.ts';
import {
  CALLER_LIST,
  isAlive,
  isPreparing,
  type SessionRecord,
  type SessionRecords,
  tombstoneTtl,
} from './records.ts';

/** The lists that a new session is added to. */
export interface Placement {
  /** The list that shows the session to its owner, or '' if no list does. */
  readonly index: string;
  /** The other lists, which only count the session toward a limit. */
  readonly places: readonly string[];
  /** All lists with their limits, in the order in which the session is added to them. */
  readonly caps: readonly (readonly [list: string, cap: Cap])[];
}

/** A session that is about to begin. */
interface NewSession {
  readonly id: string;
  /** Whether it is a default session. Those are never listed. */
  readonly isDefault: boolean;
  /** The id of the session that it is forked from. */
  readonly parent?: string | undefined;
}

/** One page of sessions. */
export interface RecordPage {
  readonly records: readonly SessionRecord[];
  readonly next?: string;
}

const PAGE = 50;
/** The number of full lists that are remembered as full. */
const MAX_FULL = 1024;

/** Which sessions each principal, transport session or caller has. It limits how many, and lists them. */
export class SessionIndex {
  readonly #records: SessionRecords;
  readonly #settings: SessionsSettings;
  readonly #lists: Omit<CappedListOptions, 'ttl'>;

  constructor(records: SessionRecords, settings: SessionsSettings) {
    this.#records = records;
    this.#settings = settings;
    this.#lists = { store: records.store, tombstoneTtl: tombstoneTtl(settings), full: new Recent(MAX_FULL) };
  }

  /**
   * Returns the lists for a new session.
   *
   * A principal's sessions have their own list. Anonymous sessions count in total and toward their caller. If either limit is
   * reached the new one is refused, because nobody may end somebody else's session. On one transport session, and for one
   * principal, the oldest may end.
   */
  placementOf(requester: Requester, { id, isDefault, parent }: NewSession): Placement {
    const { maxPerPrincipal, maxAnonymous, maxAnonymousPerCaller, maxEnded, refuseWhenFull } = this.#settings;
    const cap = (max: number, option: string, maxTombstones?: number, refuse = true): Cap => ({
      max,
      refuse,
      maxTombstones,
      full: () => tooMany(`sessions.${option}`),
      fullOfTombstones: () => tooMany('sessions.maxEnded'),
      spare: parent,
    });
    const ofOne = (maxTombstones?: number) =>
      cap(maxPerPrincipal, 'maxPerPrincipal', maxTombstones, refuseWhenFull);
    if (requester.owner !== null) {
      const list = isDefault ? `default/${requester.owner}` : `principal/${requester.owner}`;
      const caps = [[list, ofOne(shareOf(maxEnded))]] as const;
      return isDefault ? { index: '', places: [list], caps } : { index: list, places: [], caps };
    }
    if (maxAnonymous === 0) throw noAnonymous();
    const shard = shardOf(id, Math.min(maxAnonymous, maxEnded));
    const total = cap(
      Math.floor(maxAnonymous / shard.count),
      'maxAnonymous',
      Math.ceil(maxEnded / shard.count),
    );
    const caller = callerList(requester.caller);
    const ofCaller = cap(maxAnonymousPerCaller, 'maxAnonymousPerCaller', shareOf(maxEnded));
    const own = isDefault ? undefined : requester.index;
    return {
      index: own ?? '',
      places: caller === undefined ? [shard.name] : [shard.name, caller],
      caps: [
        [shard.name, total],
        ...(caller === undefined ? [] : [[caller, ofCaller] as const]),
        // This list comes last: sessions may end only for a session that has found its other places.
        ...(own === undefined ? [] : [[own, ofOne()] as const]),
      ],
    };
  }

  /** Adds a session to its lists, or to none. Returns the ids of sessions that must end for it. Throws if there is no room. */
  add(
    session: Pick<SessionRecord, 'id' | 'created'>,
    { caps }: Pick<Placement, 'caps'>,
  ): Promise<readonly string[]> {
    const lists = caps.map(([name, cap]) => [this.#list(name), cap] as const);
    return addToAll(lists, session, (id) => this.#exists(id));
  }

  /** Removes a session from its lists. */
  async remove(
    { id, index, places = [] }: Pick<SessionRecord, 'id' | 'index' | 'places'>,
    { hasTombstone }: { readonly hasTombstone: boolean },
  ): Promise<void> {
    for (const name of index === '' ? places : [index, ...places])
      await this.#list(name).remove(id, { hasTombstone });
  }

  /** Returns the usable sessions of a list, oldest first. Returns undefined if `after` is not the cursor of an earlier page. */
  async page(list: string, after?: string): Promise<RecordPage | undefined> {
    const page = await this.#list(list).page(after, PAGE);
    if (!page) return undefined;
    const found = await Promise.all(page.ids.map((id) => this.#records.find(id)));
    const records = found.flatMap((each) =>
      each && each.record.index === list && isAlive(each.record) && !isPreparing(each.record)
        ? [each.record]
        : [],
    );
    return page.next === undefined ? { records } : { records, next: page.next };
  }

  async #exists(id: string): Promise<boolean> {
    // Subscribers without a session are counted too. Their subscriptions are recorded under the id itself.
    if (id.startsWith('subscriber/')) return (await this.#records.store.get(id)) !== undefined;
    const found = await this.#records.find(id);
    return found !== undefined && isAlive(found.record);
  }

  #list(name: string): CappedList {
    const { maxLifetime, maxAnonymousLifetime } = this.#settings;
    const isOfPrincipal = name.startsWith('principal/') || name.startsWith('default/');
    return new CappedList(name, {
      ...this.#lists,
      ttl: isOfPrincipal ? maxLifetime : maxAnonymousLifetime,
    });
  }
}

/** Returns the list for the caller of anonymous sessions. */
export function callerList({ name }: Caller): string | undefined {
  return name === undefined ? undefined : `${CALLER_LIST}${sha256(name)}`;
}

function noAnonymous(): ValiseError {
  return new CallerLimitError(
    'This server gives no session to clients that it does not know (sessions.maxAnonymous is 0).',
    { next: 'Sign in first.' },
  );
}
