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
  [/max number of clients/, { code: 'store-unavailable', undone: true }],
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

/** Whether the server does not let a connection into the database that was asked for. ioredis would go on in database 0. */
export function isWrongDatabase(error: Error & { readonly command?: { readonly name?: unknown } }): boolean {
  return error.command?.name === 'select';
}

/** Whether a server refuses us: waiting helps against one that is away, not against that. */
export function isRefusal(error: Error): boolean {
  const { code } = troubleOf(error);
  return code === 'store-denied' || (code === 'store-failed' && isWrongDatabase(error));
}
