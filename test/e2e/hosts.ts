import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

/** What the tests use of a client; both majors have it. */
export type AnyClient = ClientV2;

/** How a host starts a server. */
export interface Command {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

const info = { name: 'host', version: '1.0.0' };

/** Clients as hosts make them, by SDK major and era. A v1 client has the older era only. */
export const HOSTS = [
  { client: 'v1', era: 'legacy' },
  { client: 'v2', era: 'legacy' },
  { client: 'v2', era: 'modern' },
] as const;

export type Host = (typeof HOSTS)[number];

export function makeClient({ client, era }: Host): AnyClient {
  if (client === 'v1') return new ClientV1(info) as unknown as AnyClient;
  const mode = era === 'modern' ? ({ pin: '2026-07-28' } as const) : 'legacy';
  return new ClientV2(info, { versionNegotiation: { mode } });
}

/** A URL, and where its requests really go: so that a domain name can be tried on this machine. */
export interface Place {
  readonly url: URL;
  readonly at: URL;
}

/** A transport of the client's own major, to a URL or to a command that it starts. */
export function makeTransport({ client }: Host, to: URL | Place | Command): StdioV2 | HttpV2 {
  if ('at' in to || to instanceof URL) {
    const { url, at } = to instanceof URL ? { url: to, at: to } : to;
    const options = { fetch: (_: string | URL, init?: RequestInit) => fetch(at, init) };
    return client === 'v1' ? (new HttpV1(url, options) as unknown as HttpV2) : new HttpV2(url, options);
  }
  const command = { ...to, args: [...to.args], env: { ...inherited(), ...to.env } };
  return client === 'v1' ? (new StdioV1(command) as unknown as StdioV2) : new StdioV2(command);
}

function inherited(): Record<string, string> {
  return { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '' };
}

/** Calls a tool; its text. */
export async function callText(
  client: AnyClient,
  name: string,
  args: Record<string, unknown> = {},
): Promise<string> {
  const { content } = await client.callTool({ name, arguments: args });
  return (content as { text: string }[]).map(({ text }) => text).join('\n');
}
