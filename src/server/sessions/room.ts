import { ValiseError } from '../../errors.ts';
import { sha256 } from '../../sha256.ts';
import { shareOf } from '../quota.ts';
import type { Requester } from './held.ts';
import type { SessionsSettings } from './options.ts';
import { type Caps, callerList } from './registry.ts';
import { tooMany } from './shelf.ts';

/** Where a new session stands, and what limits it. */
export interface Room {
  readonly shelf: string;
  readonly places: readonly string[];
  readonly caps: Caps;
}

/** What is to begin. */
interface New {
  readonly id: string;
  /** True where it stands in for the transport's own session: nobody lists those. */
  readonly implicit: boolean;
  /** The session it is forked from. */
  readonly parent?: string | undefined;
}

/** One list of all anonymous sessions would be changed by every creation; so many are exact enough. */
const SHARDS = 16;

/**
 * The lists in which a new session takes a place. A principal's sessions have a list of their own. Those of nobody count
 * in total and for their caller, and where one of them is full the new one is refused: nobody ends the session of
 * somebody else. On one transport's session, and for one principal, the oldest may go.
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
    // Last: what has to go for it must go for a session that has found its place.
    ...(own === undefined ? [] : [[own, { ...ofOne, spare: parent }] as const]),
  ];
  return { shelf: own ?? '', places: caller === undefined ? [total] : [total, caller], caps };
}

function nobody(): ValiseError {
  return new ValiseError(
    'too-many-sessions',
    'This server gives no session to clients that it does not know (sessions.maxAnonymous is 0).',
    { next: 'Sign in first.' },
  );
}
