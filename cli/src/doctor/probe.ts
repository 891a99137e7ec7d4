import type { ClientValise } from 'mcp-valise/client';
import { ValiseError } from 'mcp-valise/client';
import {
  type Announced,
  causesOf,
  type FetchLike,
  instrument,
  isResponse,
  majorOf,
  makeHttpTransport,
  messageOf,
  type Result,
  readAnnounced,
  StdioClientTransport,
  statusOf,
  type TransportLike,
} from 'mcp-valise/internal';
import { resolvingFetch } from '../connection/resolve.ts';
import { makeClient, type Sdk } from '../connection/sdk.ts';
import { lastLines } from '../connection/server-stderr.ts';
import { type CliTarget, nameOfTarget } from '../connection/target.ts';
import { unlessInterrupted, whileWaiting } from '../connection/waiting.ts';
import { CommandError } from '../errors.ts';
import type { ConnectOptions } from '../options/options.ts';

/** The capabilities of a target in one era. */
export interface Seen {
  readonly version: string;
  readonly families: Announced;
  readonly session: boolean;
  /** How many seconds its clock is ahead of the local one. */
  readonly skew: number | undefined;
}

type Client = Awaited<ReturnType<typeof makeClient>>;

/** The first request of each era. */
const FIRST = { legacy: 'initialize', modern: 'server/discover' } as const;

/** Timeout for the first response, in seconds. A command may have to be downloaded first. */
const PATIENCE = { http: 10, stdio: 30 } as const;

/** Connects in one era and reads what the server announces. */
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
    // A client that is still probing for the era has no transport yet.
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

/** Waits for the response to `method`, prints that it waits, and gives up after a timeout. */
async function withinReason(target: CliTarget, method: string, work: () => Promise<void>): Promise<void> {
  const name = nameOfTarget(target);
  const seconds = PATIENCE[target.kind];
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<never>((_resolve, reject) => {
    const error = new ValiseError('not-delivered', `It did not answer \`${method}\` within ${seconds} s.`);
    timer = setTimeout(() => reject(error), seconds * 1000);
  });
  try {
    await whileWaiting(`${name} to answer \`${method}\``, () => Promise.race([work(), over]));
  } finally {
    clearTimeout(timer);
  }
}

/** Returns the negotiated version. v2 clients know it; v1 clients only over HTTP, where they send it in a header. */
function versionOf(client: Client): string | undefined {
  if (majorOf(client) === 'v2') return client.getNegotiatedProtocolVersion();
  return (client.transport as { readonly protocolVersion?: string } | undefined)?.protocolVersion;
}

/** Creates a transport without Valise, to inspect the server as it is. */
async function bareTransport(
  sdk: Sdk,
  target: CliTarget,
  fetch: FetchLike,
  introduced: (result: Result) => void,
): Promise<TransportLike> {
  const transport =
    target.kind === 'stdio'
      ? new StdioClientTransport({ ...target.command, stderr: 'pipe' })
      : await makeHttpTransport(sdk, target.url, fetch);
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

/** Connects with the stored tokens. It never opens a sign-in page, because the doctor changes nothing. */
async function connectSignedIn(
  client: Client,
  url: URL,
  fetch: FetchLike,
  valise: ClientValise,
): Promise<void> {
  const redirect = (): never => {
    throw new CommandError('needs-sign-in', 'The stored sign-in is no longer sufficient.');
  };
  await valise.connect(client, url, { fetch, resume: false, auth: { redirect } });
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

/** Whether the server requires sign-in. */
export function wantsSignIn(error: unknown): boolean {
  return causesOf(error).some((one) => {
    const { code, name } = one as { readonly code?: unknown; readonly name?: unknown };
    return statusOf(one) === 401 || code === 'needs-sign-in' || name === 'UnauthorizedError';
  });
}
