import { STATUS_CODES } from 'node:http';
import { causesOf, isConnectError, messageOf, statusOf } from 'mcp-valise/internal';
import { isExplained } from '../errors.ts';

/** Advice for error codes of Node, its TLS and its HTTP when a server cannot be reached. */
const NEXT: readonly (readonly [RegExp, string])[] = [
  [/^ECONNREFUSED$/, 'Is the server running there?'],
  [/^(ENOTFOUND|EAI_AGAIN)$/, 'Is the name of the host right, and is there a network?'],
  [
    /^(ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT)$/,
    'Is it up, and may it be reached from here?',
  ],
  [
    /^(EPROTO|ERR_SSL_|ERR_TLS_)|CERT|SELF_SIGNED|UNABLE_TO_/,
    'Does it speak https: at that port? A certificate of your own goes into NODE_EXTRA_CA_CERTS.',
  ],
  [/^HPE_/, 'Does it speak plain http: at that port, or https:?'],
];

/** The message of `fetch` for a port that it always blocks, such as 6000. */
const NO_PORT = 'bad port';

const BROKEN_OFF = /^(ECONNRESET|UND_ERR_SOCKET)$/;

const LISTENING: readonly (readonly [RegExp, string])[] = [
  [/^EADDRINUSE$/, 'Another program listens there: choose another port, or 0 for a free one.'],
];

const PATH = "Is the path of the URL right? Most servers are at '/mcp'.";
const ITS_OWNER = 'Ask whoever runs the server.';

const STATUS: Readonly<Record<number, string>> = {
  401: "Sign in, or check the header: -H 'Authorization: Bearer …'.",
  403: 'Whoever signed in may not do this; check the header or sign in as somebody else.',
  404: PATH,
  405: PATH,
  429: 'Wait a while, and try again.',
};

/** Returns what went wrong on the way to a server, and the next step; undefined if the error is something else. */
export function connectionProblem(given: unknown): string | undefined {
  const error = isConnectError(given) ? given.cause : given;
  if (isExplained(error)) return undefined;
  const chain = causesOf(error);
  const innermost = chain.at(-1);
  const code = String((innermost as { readonly code?: unknown } | undefined)?.code ?? '');
  const said = saidBy(innermost);
  const taken = nextOf(LISTENING, code);
  if (taken !== undefined) return `${said}. ${taken}`;
  if (BROKEN_OFF.test(code))
    return `The connection broke off before an answer came: ${said}. The server may have carried out what it was asked: look before trying again. If it is always so, does it speak http: or https: at that port?`;
  if (said === NO_PORT)
    return 'That port belongs to another protocol, and no browser or client goes there. Have the server listen at another one.';
  const next = nextOf(NEXT, code);
  if (next !== undefined || chain.some((one) => messageOf(one) === 'fetch failed'))
    return `The server cannot be reached: ${said}. ${next ?? NEXT[0]?.[1]}`;
  const status = chain.map(statusOf).find((each) => each !== undefined);
  if (status !== undefined) return statusProblem(status, chain);
  const odd = notMcp(chain);
  if (odd !== undefined) return odd;
  // v2 uses the second message if the server exits on its first request.
  if (/Connection closed$|the connection closed during/.test(messageOf(error)))
    return 'Connection closed: the server has ended, or closed its output. Does its command run by itself?';
  return undefined;
}

/** Returns the message of an error; for OpenSSL, only the reason, because the rest is for its authors. */
function saidBy(error: unknown): string {
  const { reason } = (error ?? {}) as { readonly reason?: unknown };
  return /:SSL routines:/.test(messageOf(error)) && typeof reason === 'string' ? reason : messageOf(error);
}

function statusProblem(status: number, chain: readonly unknown[]): string {
  const error = chain.find((one) => statusOf(one) !== undefined);
  const { said, isMcp } = saidIn(bodyOf(error));
  const next = isMcp && status !== 401 && status !== 403 ? ITS_OWNER : (STATUS[status] ?? nextByKind(status));
  const name = STATUS_CODES[status] ? ` ${STATUS_CODES[status]}` : '';
  return `The server answered with HTTP ${status}${name}${said ? `: ${said.replace(/\.$/, '')}` : ''}. ${next}`;
}

/** Returns the body of an error response. v1 has it only in its message; v2 puts its description of a redirect there. */
export function bodyOf(error: unknown): string {
  const { text } = (error as { readonly data?: { readonly text?: unknown } }).data ?? {};
  if (typeof text === 'string' && text !== '') return text;
  return /Error POSTing to endpoint: (.*)$/s.exec(messageOf(error))?.[1] ?? '';
}

function nextByKind(status: number): string {
  if (status < 400)
    return 'Give the URL that it points to, if that is the server; a page to sign in at is not.';
  return status >= 500 ? ITS_OWNER : 'Is it an MCP server?';
}

/** Returns the first line of a body, or the message of a JSON-RPC error in it. Returns nothing for an HTML page. */
function saidIn(body: string): { readonly said: string; readonly isMcp: boolean } {
  const text = body.trim();
  if (/^(<|null$)/.test(text)) return { said: '', isMcp: false };
  try {
    const { error } = JSON.parse(text) as { readonly error: { readonly message: unknown } };
    if (typeof error.message === 'string') return { said: error.message.slice(0, 200), isMcp: true };
  } catch {
    // The body is not JSON-RPC, so it is shown unchanged.
  }
  return { said: text.split('\n', 1)[0]?.slice(0, 200) ?? '', isMcp: false };
}

/** Returns a message if a server answered, but not as an MCP server does. */
function notMcp(chain: readonly unknown[]): string | undefined {
  const type = /Unexpected content type: ([^\s;)]+)/.exec(chain.map(messageOf).join('\n'))?.[1];
  if (type !== undefined)
    return `The server answered with ${type === 'null' ? 'nothing' : type}, which is not MCP. ${PATH}`;
  const innermost = chain.at(-1);
  if (innermost instanceof SyntaxError && /JSON/.test(innermost.message))
    return `The server answered with JSON that cannot be read (${innermost.message}). ${PATH}`;
  if (!isZodError(innermost)) return badResult(innermost);
  if (!innermost.issues[0]?.path.length)
    return `The server answered with JSON that is no message of MCP. ${PATH}`;
  const { path, message } = firstOf(innermost.issues);
  return `The server's answer is not as MCP has it (${path.join('.')}: ${message}). ${ITS_OWNER}`;
}

/** Describes an invalid result; v2 prints the Zod issues in its message. */
function badResult(error: unknown): string | undefined {
  const [, method, found = ''] = /^Invalid result for (\S+): (.*)$/s.exec(messageOf(error)) ?? [];
  if (method === undefined) return undefined;
  let why = found.split(/ — |\n/, 1)[0];
  try {
    const { path, message } = firstOf(JSON.parse(found) as Issue[]);
    why = `${path.join('.')}: ${message}`;
  } catch {
    // The text is a sentence from the SDK.
  }
  return `The server's answer to ${method} is not as MCP has it (${why}). ${ITS_OWNER}`;
}

interface Issue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
  /** The issues for each member of a union. */
  readonly errors?: readonly (readonly Issue[])[];
}

interface ZodError {
  readonly issues: readonly Issue[];
}

/** Returns the first issue; for a union, that of the member that matches best. */
function firstOf([issue]: readonly Issue[]): Issue {
  if (issue === undefined) return { path: [], message: '' };
  const [closest] = [...(issue.errors ?? [])].sort((one, other) => one.length - other.length);
  if (closest === undefined) return issue;
  const { path, message } = firstOf(closest);
  return { path: [...issue.path, ...path], message };
}

/** Whether this is a Zod error, from whichever version of Zod the SDK uses. */
function isZodError(error: unknown): error is ZodError {
  return error instanceof Error && /ZodError$/.test(error.name) && 'issues' in error;
}

function nextOf(table: typeof NEXT, code: string): string | undefined {
  return table.find(([codes]) => codes.test(code))?.[1];
}
