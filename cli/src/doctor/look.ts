import type { ClientValise } from 'mcp-valise/client';
import { ValiseError } from 'mcp-valise/client';
import type { FetchLike, TransportLike } from 'mcp-valise/internal';
import {
  causesOf,
  instrument,
  majorOf,
  makeHttpTransport,
  messageOf,
  StdioClientTransport,
  statusOf,
} from 'mcp-valise/internal';
import { type Announced, isResponse, type Result, readAnnounced } from 'mcp-valise/wire';
import { unlessInterrupted } from '../interrupted.ts';
import type { ConnectOptions } from '../options.ts';
import { whileWaiting } from '../patience.ts';
import { resolvingFetch } from '../resolve.ts';
import { makeClient, type Sdk } from '../sdk.ts';
import { lastLines } from '../server-stderr.ts';
import { type CliTarget, nameOfTarget } from '../target.ts';

/** What a target can do in one era. */
export interface Seen {
  readonly version: string;
  readonly families: Announced;
  readonly session: boolean;
  /** By how many seconds its clock is ahead of ours. */
  readonly skew: number | undefined;
}

type Client = Awaited<ReturnType<typeof makeClient>>;

/** What an era begins with. */
const FIRST = { legacy: 'initialize', modern: 'server/discover' } as const;

/** For how many seconds a server may keep silent. A command may have to be downloaded first. */
const PATIENCE = { http: 10, stdio: 30 } as const;

/** Connects in one era and looks at what the server says of itself. */
export async function look(
  target: CliTarget,
  options: ConnectOptions,
  era: keyof typeof FIRST,
  signedIn: ClientValise | undefined,
): Promise<Seen> {
  const client = await makeClient({ sdk: options.sdk, era });
  let introduction: Result | undefined;
  let skew: number | undefined;
  const fetch = watched(options, (response) => {
    const date = Date.parse(response.headers.get('date') ?? '');
    if (!Number.isNaN(date)) skew = Math.round((date - Date.now()) / 1000);
  });
  const transport = await bareTransport(options.sdk, target, fetch, (result) => (introduction = result));
  const said = transport instanceof StdioClientTransport ? lastLines(transport) : (): string[] => [];
  const leave = async (): Promise<void> => {
    await client.close();
    // As long as the client probes for the era, it has no transport.
    await transport.close();
  };
  const seen = async (): Promise<Seen> => {
    await withinReason(target, FIRST[era], async () => {
      if (target.kind === 'http' && signedIn) await connectSignedIn(client, target.url, fetch, signedIn);
      else await client.connect(transport as never);
    });
    return {
      version: versionOf(client) ?? String(introduction?.['protocolVersion'] ?? 'no version'),
      families: readAnnounced(introduction?.['capabilities'] ?? client.getServerCapabilities()),
      session: client.transport?.sessionId !== undefined,
      skew,
    };
  };
  const told = async (error: unknown): Promise<never> => {
    await leave();
    const lines = said();
    throw lines.length === 0 ? error : new SaidError(error, lines);
  };
  return unlessInterrupted(seen().catch(told).finally(leave), leave);
}

/** A failure to connect to a command, with the last lines that it wrote to stderr. */
export class SaidError extends Error {
  readonly lines: readonly string[];

  constructor(cause: unknown, lines: readonly string[]) {
    super(messageOf(cause), { cause });
    this.lines = lines;
  }
}

/** Waits for the answer to `method`, and says so, but not for ever. */
async function withinReason(target: CliTarget, method: string, work: () => Promise<void>): Promise<void> {
  const name = nameOfTarget(target);
  const seconds = PATIENCE[target.kind];
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<never>((_resolve, reject) => {
    const error = new ValiseError('no-answer', `It did not answer \`${method}\` within ${seconds} s.`);
    timer = setTimeout(() => reject(error), seconds * 1000);
  });
  try {
    await whileWaiting(`${name} to answer \`${method}\``, () => Promise.race([work(), over]));
  } finally {
    clearTimeout(timer);
  }
}

/** v2 clients know it; of v1's, only those over HTTP, which name it in a header. */
function versionOf(client: Client): string | undefined {
  if (majorOf(client) === 'v2') return client.getNegotiatedProtocolVersion();
  return (client.transport as { readonly protocolVersion?: string } | undefined)?.protocolVersion;
}

/** Without Valise on it: what is looked at is the server as it is. */
async function bareTransport(
  sdk: Sdk,
  target: CliTarget,
  fetch: FetchLike,
  introduced: (result: Result) => void,
): Promise<TransportLike> {
  const transport =
    target.kind === 'stdio'
      ? new StdioClientTransport({ ...target.command, stderr: 'pipe' })
      : await makeHttpTransport(sdk, target.url, { fetch });
  instrument(
    transport,
    {},
    {
      inbound(message) {
        if (isResponse(message) && 'result' in message && message.result['capabilities'])
          introduced(message.result);
        return message;
      },
    },
  );
  return transport;
}

/** With the tokens that are kept. Nobody is shown a page: a doctor looks, and changes nothing. */
async function connectSignedIn(
  client: Client,
  url: URL,
  fetch: FetchLike,
  valise: ClientValise,
): Promise<void> {
  const redirect = (): never => {
    throw new ValiseError('needs-sign-in', 'What is kept of the sign-in is not enough any more.');
  };
  await valise.connect(client, valise.http(url, { fetch, resume: false, auth: { redirect } }));
}

function watched({ resolve, header }: ConnectOptions, onResponse: (response: Response) => void): FetchLike {
  const base = resolvingFetch(resolve);
  return async (url, init = {}) => {
    const headers = new Headers(init.headers);
    for (const [name, value] of Object.entries(header)) headers.set(name, value);
    const response = await base(url, { ...init, headers });
    onResponse(response);
    return response;
  };
}

/** True where the server wants to know who asks. */
export function wantsSignIn(error: unknown): boolean {
  return causesOf(error).some((one) => {
    const { code, name } = one as { readonly code?: unknown; readonly name?: unknown };
    return statusOf(one) === 401 || code === 'needs-sign-in' || name === 'UnauthorizedError';
  });
}
