import { type ClientOptions, Client as ClientV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import * as v1 from '@modelcontextprotocol/sdk/types.js';
import { onTestFinished } from 'vitest';
import { z } from 'zod';

/** How a host is made: with which major, and whether it tries the newer era. */
export type HostKind = 'v1' | 'v2' | 'v2 auto';

/** What a host can do, and how it is started. */
export interface HostOptions {
  readonly capabilities?: ClientOptions['capabilities'];
  readonly env?: Readonly<Record<string, string>>;
  /** What it answers to requests of the server, by method. */
  readonly answers?: Readonly<Record<string, (params: unknown, signal: AbortSignal) => unknown>>;
  /** Whom it tells of notifications. */
  readonly onNotification?: (method: string, params: unknown) => void;
}

/** A host that has started its server. Both majors have what the tests use. */
export interface SdkHost {
  readonly client: ClientV2;
  readonly pid: number;
  /** What its server has written to stderr. */
  log(): string;
  /** Sends any request, also one that the SDK does not know; the raw result. */
  ask(method: string, params?: object, options?: object): Promise<unknown>;
}

/** What handlers get besides their request, with v2 and with v1. */
type Extra = { readonly mcpReq: { readonly signal: AbortSignal } } | { readonly signal: AbortSignal };

const INFO = { name: 'host', version: '1.0.0' };
const SCHEMAS = {
  'elicitation/create': v1.ElicitRequestSchema,
  'sampling/createMessage': v1.CreateMessageRequestSchema,
  'roots/list': v1.ListRootsRequestSchema,
} as const;

/** Starts a command as a host does that is written with an SDK; it ends with the test. */
export async function sdkHost(
  kind: HostKind,
  [command, ...args]: readonly [string, ...string[]],
  { capabilities = {}, env = {}, answers = {}, onNotification }: HostOptions = {},
): Promise<SdkHost> {
  const {
    VALISE_KEYS: _keys,
    VALISE_CLIENT_KEYS: _own,
    VALISE_STORE: _store,
    ...inherited
  } = process.env as Record<string, string>;
  const settings = { command, args, env: { ...inherited, ...env }, stderr: 'pipe' as const };
  const transport = kind === 'v1' ? new StdioV1(settings) : new StdioV2(settings);
  const mode = kind === 'v2 auto' ? { versionNegotiation: { mode: 'auto' as const } } : {};
  const client =
    kind === 'v1'
      ? (new ClientV1(INFO, { capabilities: capabilities as object }) as unknown as ClientV2)
      : new ClientV2(INFO, { capabilities, ...mode });
  for (const [method, answer] of Object.entries(answers))
    client.setRequestHandler(
      (kind === 'v1' ? SCHEMAS[method as keyof typeof SCHEMAS] : method) as never,
      (async ({ params }: { params: unknown }, extra: Extra) =>
        answer(params, 'mcpReq' in extra ? extra.mcpReq.signal : extra.signal)) as never,
    );
  client.fallbackNotificationHandler = async ({ method, params }) => onNotification?.(method, params);
  const log: string[] = [];
  transport.stderr?.on('data', (chunk) => log.push(String(chunk)));
  await client.connect(transport as StdioV2);
  onTestFinished(() => client.close());
  return {
    client,
    pid: transport.pid as number,
    log: () => log.join(''),
    ask: (method, params, options) =>
      (client.request as (...all: unknown[]) => Promise<unknown>).call(
        client,
        { method, params },
        z.looseObject({}),
        options,
      ),
  };
}

/** Kills what a host has started, and waits until it has noticed. */
export async function kill({ client, pid }: SdkHost): Promise<void> {
  const closed = new Promise<void>((gone) => {
    client.onclose = gone;
  });
  process.kill(pid, 'SIGKILL');
  await closed;
}
