import { type ClientValise, openValise } from 'mcp-valise/client';
import { generateKey } from 'mcp-valise/seal';
import type { Request } from '../../src/wire/index.ts';
import { commandOf, type Running, startHttp } from './example.ts';
import {
  type AnyClient,
  type Command,
  callText,
  HOSTS,
  type Host,
  makeClient,
  makeTransport,
  type Place,
} from './hosts.ts';

const SERVERS = [
  { server: 'v1', over: 'stdio', args: ['--sdk', 'v1'] },
  { server: 'v2', over: 'stdio', args: ['--sdk', 'v2'] },
  { server: 'v1', over: 'HTTP', args: ['--sdk', 'v1'] },
  { server: 'v2', over: 'HTTP', args: ['--sdk', 'v2'] },
  { server: 'v1', over: 'stateless HTTP', args: ['--sdk', 'v1', '--stateless'] },
  { server: 'v2', over: 'stateless HTTP', args: ['--sdk', 'v2', '--stateless'] },
] as const;

/** A client and a server, a transport between them, and the era they speak. */
export type Pairing = Host & (typeof SERVERS)[number];

/** Every pairing. The newer era is v2's alone, and has no sessions: `--stateless` changes nothing in it. */
export const MATRIX: readonly Pairing[] = HOSTS.flatMap((host) =>
  SERVERS.filter(
    ({ server, over }) => host.era === 'legacy' || (server === 'v2' && over !== 'stateless HTTP'),
  ).map((server) => ({ ...host, ...server })),
);

export type Scope = 'session' | 'server';

/** A client with Valise, at the probe, and what a test does with it. */
export class Stage {
  readonly pairing: Pairing;
  readonly target: URL | Command;
  readonly valise: ClientValise;
  client: AnyClient;
  readonly #running: Running | undefined;
  #names = 0;

  constructor(
    pairing: Pairing,
    target: URL | Command,
    valise: ClientValise,
    client: AnyClient,
    running: Running | undefined,
  ) {
    this.pairing = pairing;
    this.target = target;
    this.valise = valise;
    this.client = client;
    this.#running = running;
  }

  static async open(pairing: Pairing): Promise<Stage> {
    const env = { VALISE_KEYS: generateKey() };
    const running = pairing.over === 'stdio' ? undefined : await startHttp('probe', pairing.args, env);
    const target = running?.url ?? { ...commandOf('probe', '--stdio', ...pairing.args), env };
    const valise = await openValise({ store: 'memory:', allowLocal: true, quotas: { keysPerServer: 100 } });
    const client = makeClient(pairing);
    await valise.connect(client, makeTransport(pairing, target));
    return new Stage(pairing, target, valise, client, running);
  }

  async close(): Promise<void> {
    await this.client.close();
    await this.valise.close();
    await this.#running?.stop('SIGTERM');
  }

  /** A new name, so that tests do not meet; its first part tells the probe how to keep it. */
  fresh(kind = 'k'): string {
    return `${kind}:${++this.#names}`;
  }

  /** Another client of the same kind. */
  async connect(to: URL | Place | Command = this.target, through = this.valise): Promise<AnyClient> {
    const client = makeClient(this.pairing);
    await through.connect(client, makeTransport(this.pairing, to));
    return client;
  }

  /** Another client, which calls the probe by a domain name. */
  connectAs(host: string, through = this.valise): Promise<AnyClient> {
    return this.connect({ url: new URL(`http://${host}/mcp`), at: this.target as URL }, through);
  }

  async ask(name: string, args: object, of = this.client): Promise<unknown> {
    return JSON.parse(await callText(of, name, args as Record<string, unknown>));
  }

  /** Has the probe change state. */
  async change(
    scope: Scope,
    change: { readonly set?: object; readonly remove?: string[] },
    of = this.client,
  ): Promise<void> {
    await this.ask('change', { scope, ...change }, of);
  }

  /** Has the probe answer with this `_meta`, as other servers might. */
  answer(meta: object, of = this.client): Promise<unknown> {
    return this.ask('answer', { meta }, of);
  }

  /** What the probe sees of its state. */
  async show(scope: Scope, of = this.client): Promise<Record<string, unknown>> {
    return (await this.ask('show', { scope }, of)) as Record<string, unknown>;
  }

  /** The requests that the probe has seen since the last time, this one last. */
  async seen(of = this.client): Promise<Request[]> {
    return (await this.ask('seen', {}, of)) as Request[];
  }

  /** Lists, past the cache of the newer SDK. */
  async lists(): Promise<void> {
    const past = { cacheMode: 'refresh' } as never;
    await this.client.listTools(undefined, past);
    await this.client.listPrompts(undefined, past);
  }

  async prompts(): Promise<void> {
    await this.client.getPrompt({ name: 'greet', arguments: { name: 'Ann' } });
    await this.client.complete({
      ref: { type: 'ref/prompt', name: 'greet' },
      argument: { name: 'name', value: 'A' },
    });
  }
}
