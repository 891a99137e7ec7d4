import type { Trouble } from './remote.ts';

const TROUBLES: readonly (readonly [RegExp, Trouble])[] = [
  [
    /^(NOAUTH|WRONGPASS|NOPERM)|invalid password|Authentication required/,
    { code: 'store-denied', undone: true },
  ],
  [/\b(READONLY|MISCONF)\b/, { code: 'store-read-only', undone: true }],
  [/\bOOM\b/, { code: 'store-full', undone: true }],
  [
    /^(LOADING|BUSY|CLUSTERDOWN|TRYAGAIN|MASTERDOWN|NOREPLICAS)\b/,
    { code: 'store-unavailable', undone: true },
  ],
  [/Stream isn't writeable/, { code: 'store-unavailable', undone: true }],
];

/** What a client's error means. */
export function troubleOf(error: unknown): Trouble {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  const known = TROUBLES.find(([pattern]) => pattern.test(message));
  if (known) return known[1];
  // The names that ioredis and node-redis give to what the server itself answered; all else happened on the way.
  const answered = /^(ReplyError|ErrorReply|SimpleError|BlobError)$/.test(name);
  return { code: answered ? 'store-failed' : 'store-unavailable', undone: false };
}
