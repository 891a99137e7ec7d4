import {
  createValise,
  type Flow,
  type FlowOptions,
  type ServerValise,
  type ServerValiseOptions,
} from 'mcp-valise/server';
import { z } from 'zod';
import { CARRIERS, type Carrier } from '../../src/wire/index.ts';
import type { Major } from './majors.ts';

/** A message as it stands on the wire. */
/** The question of most tests. */
export const name = {
  message: 'Who?',
  schema: { type: 'object', properties: { name: { type: 'string' } } },
} as const;

export interface Wire {
  readonly id?: string | number;
  readonly method?: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into messages of every shape
  readonly [name: string]: any;
}

/** A handler under test. */
export type Work = (args: { readonly id?: number }, flow: Flow) => unknown;

/** A client that speaks bare messages, and sees exactly what the server sends. */
export interface FlowPeer {
  readonly valise: ServerValise;
  readonly rejected: { readonly what: string; readonly reason: string }[];
  /** What its author was told. */
  readonly warnings: { readonly what: string; readonly next: string }[];
  /** Sends a message and returns the next one that comes from the server. */
  say(message: Wire): Promise<Wire>;
  /** Sends a message without waiting. */
  tell(message: Wire): void;
  next(): Promise<Wire>;
  close(): Promise<void>;
}

const ASKABLE = { elicitation: {}, sampling: {}, roots: {} };

export const ours = (...carriers: Carrier[]): object => ({
  ...ASKABLE,
  extensions: { 'dev.valise/rounds': { carriers: carriers.length > 0 ? carriers : CARRIERS } },
});

const MODERN = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
};

let calls = 100;

/** A tool call of the older era. */
export const call = (args: object = {}, more: object = {}): Wire => ({
  jsonrpc: '2.0',
  id: ++calls,
  method: 'tools/call',
  params: { name: 'work', arguments: args },
  ...more,
});

/** A tool call of 2026-07-28. */
export const modernCall = (args: object = {}, params: object = {}, capabilities: object = ASKABLE): Wire => ({
  jsonrpc: '2.0',
  id: ++calls,
  method: 'tools/call',
  params: {
    name: 'work',
    arguments: args,
    ...params,
    _meta: { ...MODERN, 'io.modelcontextprotocol/clientCapabilities': capabilities },
  },
});

export interface PeerOptions {
  readonly valise?: ServerValise;
  readonly options?: Partial<ServerValiseOptions>;
  readonly flow?: FlowOptions;
  readonly capabilities?: object;
  /** Registers more than the one tool `work`. */
  readonly also?: (server: InstanceType<Major['McpServer']>, valise: ServerValise) => void;
  readonly authInfo?: object;
}

export const text = (result: string) => ({ content: [{ type: 'text' as const, text: result }] });

/** A form that asks for one of some values. */
export const choice = <const Name extends string, const Value extends string>(
  name: Name,
  ...values: Value[]
) => ({
  type: 'object' as const,
  properties: { [name]: { type: 'string', enum: values } } as unknown as {
    readonly [Key in Name]: { readonly type: 'string'; readonly enum: readonly Value[] };
  },
  required: [name] as const,
});

/** A server with one tool, `work`, that is the given flow; and a client of it in the same process. */
export async function flowPeer(
  major: Major,
  work: Work,
  { valise: given, options, flow, capabilities = ours(), also, authInfo }: PeerOptions = {},
): Promise<FlowPeer> {
  const valise = given ?? createValise({ name: 'test', ...options });
  const rejected: { what: string; reason: string }[] = [];
  valise.on('rejected', (event) => rejected.push(event));
  const warnings: { what: string; next: string }[] = [];
  valise.on('warning', (event) => warnings.push(event));
  const server = valise.install(new major.McpServer({ name: 'test', version: '1.0.0' }));
  server.registerTool('work', { inputSchema: z.looseObject({}) }, valise.flow(work as never, flow) as never);
  also?.(server, valise);
  const [near, far] = major.Memory.createLinkedPair();
  await server.connect(far);

  const arrived: Wire[] = [];
  const waiting: ((message: Wire) => void)[] = [];
  near.onmessage = (message: unknown) => {
    const wire = JSON.parse(JSON.stringify(message)) as Wire;
    const waiter = waiting.shift();
    if (waiter) waiter(wire);
    else arrived.push(wire);
  };
  await near.start();
  const next = (): Promise<Wire> => {
    const message = arrived.shift();
    return message ? Promise.resolve(message) : new Promise((resolve) => waiting.push(resolve));
  };
  const tell = (message: Wire): void => void near.send(message as never, { authInfo } as never);
  const say = (message: Wire): Promise<Wire> => {
    const answer = next();
    tell(message);
    return answer;
  };
  await say({
    jsonrpc: '2.0',
    id: 0,
    method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities, clientInfo: { name: 'raw', version: '1' } },
  });
  tell({ jsonrpc: '2.0', method: 'notifications/initialized' });
  return { valise, rejected, warnings, say, tell, next, close: () => near.close() };
}

/** The answer to a question of the server that carries its state. */
export const echo = (question: Wire, result: object): Wire => ({
  jsonrpc: '2.0',
  id: question.id as string,
  ...('state' in question && { state: question.state }),
  result,
});

export const accept = (content: object) => ({ action: 'accept', content });
