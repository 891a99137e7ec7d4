import type { ValiseError } from '../../errors.ts';
import { sha256 } from '../../sha256.ts';
import { CallerLimitError, shareOf } from '../quota.ts';
import type { Requester } from './held.ts';
import type { SessionsSettings } from './options.ts';
import { type Caps, callerList } from './registry.ts';
import { tooMany } from './shelf.ts';

/** The lists of a new session, and their limits. */
export interface Room {
  readonly shelf: string;
  readonly places: readonly string[];
  readonly caps: Caps;
}

/** The session that is about to begin. */
interface New {
  readonly id: string;
  /** Whether it stands in for the transport's own session. Stand-ins are never listed. */
  readonly implicit: boolean;
  /** The id of the session that it is forked from. */
  readonly parent?: string | undefined;
}

/**
 * How many lists share the anonymous sessions, since every creation would change a single one. The limits stay accurate enough.
 */
const SHARDS = 16;

/**
 * Returns the lists in which a new session takes a place.
 *
 * A principal's sessions have their own list. Anonymous sessions count in total and toward their caller. If either limit is
 * reached the new one is refused, because nobody may end somebody else's session. On one transport session, and for one
 * principal, the oldest may end.
 */
export function roomFor(
  settings: SessionsSettings,
  requester: Requester,
  { id, implicit, parent }: New,
): Room {
  const { maxPerPrincipal, maxAnonymous, maxAnonymousPerCaller, maxEnded, refuseWhenFull } = settings;
  const ofOne = {
    max: maxPerPrincipal,
    refuse: refuseWhenFull,
    full: () => tooMany('sessions.maxPerPrincipal'),
  };
  const own = implicit
    ? requester.owner === null
      ? undefined
      : `stand-in/${requester.owner}`
    : requester.shelf;
  if (requester.owner !== null) {
    const list = own as string;
    const cap = { ...ofOne, maxEnded: shareOf(maxEnded), spare: parent };
    return implicit
      ? { shelf: '', places: [list], caps: [[list, cap]] }
      : { shelf: list, places: [], caps: [[list, cap]] };
  }
  if (maxAnonymous === 0) throw nobody();
  const shards = Math.min(SHARDS, Math.max(1, Math.floor(Math.min(maxAnonymous, maxEnded) / 500)));
  const total = `anonymous/${Buffer.from(sha256(id), 'base64url').readUInt16BE(0) % shards}`;
  const caller = callerList(requester.caller);
  const caps: Caps = [
    [
      total,
      {
        max: Math.floor(maxAnonymous / shards),
        refuse: true,
        maxEnded: Math.ceil(maxEnded / shards),
        full: () => tooMany('sessions.maxAnonymous'),
      },
    ],
    ...(caller === undefined
      ? []
      : [
          [
            caller,
            {
              max: maxAnonymousPerCaller,
              refuse: true,
              maxEnded: shareOf(maxEnded),
              full: () => tooMany('sessions.maxAnonymousPerCaller'),
            },
          ] as const,
        ]),
    // This list comes last: sessions may end only for a session that has found its other places.
    ...(own === undefined ? [] : [[own, { ...ofOne, spare: parent }] as const]),
  ];
  return { shelf: own ?? '', places: caller === undefined ? [total] : [total, caller], caps };
}

function nobody(): ValiseError {
  return new CallerLimitError(
    'This server gives no session to clients that it does not know (sessions.maxAnonymous is 0).',
    { next: 'Sign in first.' },
  );
}
