import { statusOf } from '../client/continuity/lost.ts';
import { messageOf, ValiseError } from '../errors.ts';

/** What a code of Node, of its TLS or of its HTTP means for whoever wanted to reach a server. */
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
  [/^(HPE_|ECONNRESET$|UND_ERR_SOCKET$)/, 'Does it speak plain http: at that port, or https:?'],
];

const LISTENING: readonly (readonly [RegExp, string])[] = [
  [/^EADDRINUSE$/, 'Another program listens there: choose another port, or 0 for a free one.'],
];

const STATUS: Readonly<Record<number, string>> = {
  401: "Sign in, or check the header: -H 'Authorization: Bearer …'.",
  403: 'Whoever signed in may not do this; check the header or sign in as somebody else.',
  404: "Is the path of the URL right? Most servers are at '/mcp'.",
  405: "Is the path of the URL right? Most servers are at '/mcp'.",
};

/** An error and what it was caused by, outermost first. The SDKs keep some causes in `data`. */
export function causesOf(error: unknown): unknown[] {
  const chain: unknown[] = [];
  for (let at = error; at !== undefined && at !== null && chain.length < 10 && !chain.includes(at); ) {
    chain.push(at);
    const { cause, data, errors } = at as {
      readonly cause?: unknown;
      readonly data?: { readonly cause?: unknown };
      readonly errors?: unknown;
    };
    // Where a name has several addresses, Node tries them all; the first failure is as good as any.
    const first = Array.isArray(errors) ? errors[0] : undefined;
    const inData = data?.cause instanceof Error ? data.cause : undefined;
    at = cause instanceof Error ? cause : (inData ?? (first instanceof Error ? first : undefined));
  }
  return chain;
}

/** What went wrong on the way to a server, and the next step; undefined where it was something else. */
export function wayTrouble(error: unknown): string | undefined {
  if (error instanceof ValiseError) return undefined;
  const chain = causesOf(error);
  const innermost = chain.at(-1);
  const code = String((innermost as { readonly code?: unknown } | undefined)?.code ?? '');
  const said = messageOf(innermost);
  const taken = nextOf(LISTENING, code);
  if (taken !== undefined) return `${said}. ${taken}`;
  const next = nextOf(NEXT, code);
  if (next !== undefined || chain.some((one) => messageOf(one) === 'fetch failed'))
    return `The server cannot be reached: ${said}. ${next ?? NEXT[0]?.[1]}`;
  const status = chain.map(statusOf).find((each) => each !== undefined);
  if (status !== undefined) return statusTrouble(status, chain);
  if (/Connection closed$/.test(messageOf(error)))
    return `${messageOf(error)}: the server has ended. Does its command run by itself?`;
  return undefined;
}

function statusTrouble(status: number, chain: readonly unknown[]): string {
  const { statusText, text } = dataOf(chain.find((one) => statusOf(one) !== undefined));
  const name = typeof statusText === 'string' && statusText !== '' ? ` ${statusText}` : '';
  const line = typeof text === 'string' ? text.trim().split('\n', 1)[0]?.slice(0, 200) : '';
  const next = STATUS[status] ?? (status >= 500 ? 'Ask whoever runs the server.' : 'Is it an MCP server?');
  return `The server answered with HTTP ${status}${name}${line ? `: ${line}` : ''}. ${next}`;
}

function dataOf(error: unknown): { readonly statusText?: unknown; readonly text?: unknown } {
  const { data } = (error ?? {}) as { readonly data?: object };
  return data ?? {};
}

function nextOf(table: typeof NEXT, code: string): string | undefined {
  return table.find(([codes]) => codes.test(code))?.[1];
}
