import { type ClientValise, openValise } from '../client/index.ts';
import { loadSdk } from '../client/major.ts';
import { edgeFetch } from '../link/edge-fetch.ts';
import { StdioClientTransport } from '../link/stdio-client.ts';
import type { TransportLike } from '../link/transport.ts';
import { type ConnectOptions, storeUrl } from './options.ts';
import { remark } from './output.ts';
import { resolvingFetch } from './resolve.ts';
import { makeClient, type Sdk } from './sdk.ts';
import { type CliTarget, parseTarget } from './target.ts';

/** A client of a command, connected. */
export interface Connected {
  readonly client: Awaited<ReturnType<typeof makeClient>>;
  readonly valise: ClientValise;
  readonly target: CliTarget;
  close(): Promise<void>;
}

/** Connects to TARGET as the options say, with everything that Valise keeps for it. */
export async function connectTo(text: string, options: ConnectOptions): Promise<Connected> {
  const target = parseTarget(text);
  const valise = await openFor(options);
  try {
    const client = await makeClient({ sdk: options.sdk, era: options.era });
    await valise.connect(client, await makeTransport(target, options));
    return {
      client,
      valise,
      target,
      async close() {
        await client.close();
        await valise.close();
      },
    };
  } catch (error) {
    await valise.close().catch((late: unknown) => remark(String(late)));
    throw error;
  }
}

/** What the options say about where and whose state is kept. */
export function openFor(
  options: Pick<ConnectOptions, 'store' | 'principal' | 'allowLocal'>,
): Promise<ClientValise> {
  const { principal, allowLocal } = options;
  return openValise({ store: storeUrl(options.store), principal, allowLocal });
}

/** The transport of a target, in the SDK major that the options name. `onResponse` sees each HTTP answer. */
export async function makeTransport(
  target: CliTarget,
  options: ConnectOptions,
  onResponse?: (response: Response) => void,
): Promise<TransportLike> {
  if (target.kind === 'stdio') return new StdioClientTransport(target.command);
  const Transport = await httpTransport(options.sdk);
  const base = resolvingFetch(options.resolve);
  const fetch = edgeFetch(async (url, init) => {
    const response = await base(url, init);
    onResponse?.(response);
    return response;
  });
  return new Transport(target.url, { fetch, requestInit: { headers: options.header } });
}

async function httpTransport(sdk: Sdk) {
  const { StreamableHTTPClientTransport } =
    sdk === 'v2'
      ? await loadSdk('@modelcontextprotocol/client', () => import('@modelcontextprotocol/client'))
      : await loadSdk(
          '@modelcontextprotocol/sdk',
          () => import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
        );
  return StreamableHTTPClientTransport;
}
