/**
 * Every code of a {@link ValiseError}, with its cause and its fix. `docs/errors.md` is generated from this table.
 *
 * A new code needs a reason why no existing one fits: a program branches on codes, and people read messages.
 */
export const ERROR_CODES = {
  // How Valise is called
  'invalid-argument': [
    'An option or argument has the wrong type, an unknown name, or a value out of range.',
    'The message names the option and what it accepts.',
  ],
  'invalid-key': [
    'A key is malformed, or too weak to seal anything.',
    'Generate one with `npx mcp-valise-cli keys generate`, or `generateKey()`.',
  ],
  'invalid-schema': [
    'A schema is not a Standard Schema, validates asynchronously, or cannot be shown as a form.',
    'Use a synchronous schema; for questions, a flat object of strings, numbers, booleans and enums.',
  ],
  'invalid-flow': [
    'A flow used one step key twice, took another path when it was replayed, or returned something that is not JSON.',
    'Give each step its own key, and put everything that can change between runs into `once`.',
  ],
  'missing-package': [
    'An optional peer dependency is not installed.',
    'Install the package that the message names.',
  ],
  'no-keys': [
    'There are no keys, but sealed state must be written or read.',
    'Set `VALISE_KEYS` (servers) or `VALISE_CLIENT_KEYS` (clients), or pass `keys`.',
  ],
  'no-keychain': [
    "The system's keychain cannot be used, and there is no other place for secrets.",
    "Pass `secrets: 'store'` with `keys`, or unlock the keychain.",
  ],
  'no-store': ['The feature needs a store, and none is configured.', 'Pass `store`, such as `redis://…`.'],
  'no-sessions': [
    'The server has no data-layer sessions, or does not answer requests about them.',
    "On the server, pass `sessions` to `createValise`, such as `sessions: { ttl: '4h' }`.",
  ],
  'outside-request': [
    'A function for handlers was called outside of a request, or after its response was sent.',
    'Call it inside a handler of a server that Valise is installed on, and await it before returning.',
  ],
  'already-connected': [
    'A server, transport or process is already in use.',
    'Use each server and transport for one connection.',
  ],
  'not-connected': [
    'There is no connection, or it has ended.',
    'Connect first, with `valise.connect(client, …)`.',
  ],
  closed: ['The Valise or the store is closed.', 'Close it last, or create another one.'],

  // Limits and things that are not there
  'limit-reached': [
    'A limit on the number of sessions, questions, listeners, requests or records is reached.',
    'Retry later, delete what is not needed, or raise the limit that the message names.',
  ],
  'too-large': [
    'A message, value, journal or record exceeds its size limit.',
    'Make it smaller, or raise the limit that the message names.',
  ],
  'not-found': ['The task, event or pending question does not exist, or has expired.', 'List what exists.'],
  'already-done': [
    'Another process has already answered the question, ended the task, or signed in.',
    'Read the current state again.',
  ],
  'not-saved': [
    'A change could not be stored.',
    'See the cause, then retry. `outcome` says whether the write may have happened.',
  ],

  // Stores
  'store-unavailable': [
    'The store does not answer, or not in time.',
    'Retry if `outcome` is `not-done`. Check the server and the network.',
  ],
  'store-busy': [
    'Another process holds the store or a lease, or keeps changing the same entry.',
    'Retry. If it persists, look for a process that hangs.',
  ],
  'store-full': ['The disk or the memory of the store is full.', 'Free some space, then retry.'],
  'store-read-only': ['The store cannot be written.', 'Choose a writable place, or the primary server.'],
  'store-failed': ['The store rejected an operation.', 'See the cause, which is the error of the driver.'],
  'store-corrupt': [
    'A file or an entry is damaged, was altered, or is not from Valise.',
    'Restore it from a backup. The message says where a damaged file was moved to.',
  ],
  'store-newer': [
    'A later release has written the store or one of its records.',
    'Upgrade this process. It leaves newer records untouched.',
  ],
  'store-wrong-key': [
    'The keys do not fit the store: it is sealed with others, or sealed and none were given, or not sealed at all.',
    'Pass the keys that sealed it; `valise store seal` seals a plain store.',
  ],
  'store-denied': [
    'The store does not accept the credentials, or a file belongs to or is open to another user.',
    'Check the password, and the owner and mode of the file.',
  ],
  'store-invalid': [
    'A store was given an invalid URL, namespace, key, value or lifetime.',
    'The message names what is invalid and what is accepted.',
  ],

  // Connections and sign-in
  'server-unreachable': ['The server cannot be reached or started.', 'Check the URL or the command.'],
  'request-failed': [
    'The server answered with an error, or with something that is not a valid response.',
    'See `RequestError.rpc` or the cause.',
  ],
  timeout: ['Nobody answered in time: the server, or the user.', 'Retry, or allow more time.'],
  'not-delivered': [
    'A message could not be delivered, or its response cannot arrive on this connection.',
    'Connect again, then retry.',
  ],
  'other-version': [
    'Something was begun under another protocol revision, or by another version of the handler.',
    'Connect with the revision that the message names, or start over.',
  ],
  'sign-in-required': ['The server requires a sign-in (HTTP 401).', 'Connect with the option `auth`.'],
  'sign-in-refused': [
    'The user or the authorization server refused the sign-in, or the server rejected the new token.',
    'Sign in again, possibly with another account or scope.',
  ],
  'sign-in-insecure': [
    'The server names an OAuth endpoint that is not safe to use, such as one without TLS.',
    'Tell the operator of the server.',
  ],
  'sign-in-failed': [
    'The sign-in could not be completed: the redirect did not arrive, or did not belong to it.',
    'Sign in again.',
  ],
  'other-account': [
    'The state belongs to another account than the one that is signed in.',
    'Sign in with the first account, or start over.',
  ],

  // Sessions
  'session-gone': ['The session has ended, or never began.', 'Create a new session.'],
  'access-denied': [
    'The server does not let this client listen to what it requested.',
    'Ask for what belongs to the principal and the session.',
  ],
  'session-conflict': ['Another request has changed the session in between.', 'Read it again and retry.'],

  // Flows
  'ask-declined': ['The user declined to answer.', 'Respect it: do not ask again.'],
  'ask-cancelled': [
    'The user or the client cancelled the question.',
    'Ask again only if the user returns to it.',
  ],
  'ask-failed': ['The client could not show the question.', 'See the cause.'],
  'answer-invalid': [
    'The answer does not match the schema of the question.',
    'Ask again, with a clearer message.',
  ],
  'client-cannot': [
    'The client does not support this kind of question.',
    'Check `flow.canAsk()` first, or choose a `fallback`.',
  ],
  'no-carrier': [
    'Neither the client nor the server can keep the state of this call.',
    'Configure a store, or authenticate the client.',
  ],
  'left-open': ['The user has not answered yet.', 'Answer it later with `valise.pending.answer()`.'],
  'outcome-unknown': [
    'An effect was interrupted, and nobody knows whether it happened.',
    'Check the effect itself, then start over.',
  ],

  // Seals
  'seal-rejected': [
    'A sealed token was altered, has expired, was used before, or is bound to someone or something else.',
    'Start over to get a new one. `SealError.reason` says why; do not show it to the peer.',
  ],
} as const satisfies Record<string, readonly [cause: string, fix: string]>;

/** The code of a {@link ValiseError}. `docs/errors.md` has the cause and the fix of each. */
export type ValiseErrorCode = keyof typeof ERROR_CODES;
