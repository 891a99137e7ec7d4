import type { ClientEvents } from 'mcp-valise/client';

/** What an event says, in words. None of them contains a value. */
type Words = { readonly [Name in keyof ClientEvents]: (event: ClientEvents[Name]) => string };

const WORDS: Words = {
  set: ({ scope, key, size }) => `set ${scope} state "${key}" (${size} B)`,
  deleted: ({ scope, key, by }) => `deleted ${scope} state "${key}" (${by})`,
  evicted: ({ scope, key, quota }) => `evicted ${scope} state "${key}": the quota ${quota} is full`,
  refused: ({ key, detail }) => `refused ${key === undefined ? 'state' : `"${key}"`}: ${detail}`,
  'session-ended': ({ label, reason }) => `session ${label ?? 'without a name'} ended (${reason})`,
  'session-refused': ({ reason }) => `refused what the server says of a session: ${reason}`,
  resumed: () => 'resumed the session of an earlier process',
  renewed: ({ reason }) => `started a new session (${reason})`,
  'sign-in-elsewhere': () => 'waits for a sign-in in another process',
  'signed-in': ({ issuer }) => `signed in${issuer === undefined ? '' : ` at ${issuer}`}`,
  refreshed: () => 'refreshed the tokens',
  'message-too-large': ({ maxBytes }) => `stopped reading a message larger than ${maxBytes} bytes`,
  warning: ({ what }) => what,
};

/** The names of all events. */
export const EVENT_NAMES = Object.keys(WORDS) as (keyof ClientEvents)[];

/** Returns an event in words, and the lane that it belongs to. An event of a later release is named only. */
export function wordsOf<Name extends keyof ClientEvents>(
  name: Name,
  event: ClientEvents[Name],
): { readonly lane?: string; readonly what: string } {
  const tell = Object.hasOwn(WORDS, name) ? WORDS[name] : undefined;
  const { server, target } = event as { readonly server?: unknown; readonly target?: unknown };
  const lane = server ?? target;
  return { ...(typeof lane === 'string' && { lane }), what: tell?.(event) ?? name };
}
