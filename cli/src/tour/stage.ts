import { type ClientValise, LeaveOpen, openValise } from 'mcp-valise/client';
import { generateKey } from 'mcp-valise/seal';
import { answerElicitation, type Elicited } from '../ask/answerer.ts';
import { ELICITATION } from '../ask/handler.ts';
import { startFront } from '../front.ts';
import { makeClient } from '../sdk.ts';
import { type Instance, Processes } from './processes.ts';
import type { Show } from './show.ts';
import { stepOf } from './step.ts';

/** A message that was seen on its way. */
export interface Seen {
  readonly from: 'client' | 'server';
  readonly instance: Instance;
  /** Counts the HTTP requests: an answer has the number of its question. */
  readonly exchange: number;
  readonly message: unknown;
}

/** What a tour is made with. */
export interface TourSettings {
  readonly show: Show;
  /** True where a person is there to answer. */
  readonly interactive: boolean;
  /** The store that `--store` names, or else one of the tour's own. */
  store(name: string): string;
  /** A store in the tour's folder, which goes when the tour ends. */
  ownStore(name: string): string;
  /** Whose state it is: nobody's but this tour's, whatever else is in the store. */
  readonly principal: string;
}

const NAMES = ['A', 'B', 'C', 'D'];
const CLIENT = 'client';

/** What a story is told on: real processes, a front that sees what goes by, and clients. Everything ends with it. */
export class Stage {
  readonly show: Show;
  readonly settings: TourSettings;
  readonly processes = new Processes();
  readonly seen: Seen[] = [];
  readonly keys = generateKey();
  readonly #ends: (() => Promise<unknown>)[] = [];
  #started = 0;
  #claims = { made: 0, failed: 0 };

  constructor(settings: TourSettings) {
    this.settings = settings;
    this.show = settings.show;
  }

  get claims(): { readonly made: number; readonly failed: number } {
    return this.#claims;
  }

  /** Starts instances of an example that share the keys, and what `args` names. */
  async serve(example: string, count: number, args: readonly string[] = []): Promise<Instance[]> {
    const names = Array.from({ length: count }, () => `instance ${NAMES[this.#started++ % NAMES.length]}`);
    return Promise.all(
      names.map((name) => this.processes.serve(name, example, args, { VALISE_KEYS: this.keys })),
    );
  }

  /** Puts the front before instances: each request goes to the next of them. The list may be changed later. */
  async open(instances: Instance[]): Promise<URL> {
    this.lanes(instances);
    const { port, close } = await startFront({
      targets: () => instances.map(({ url }) => url),
      observe: ({ from, target, exchange, message }) => {
        const instance = instances[target];
        if (!instance) return;
        this.seen.push({ from, instance, exchange, message });
        const [sender, receiver] = from === 'client' ? [CLIENT, instance.name] : [instance.name, CLIENT];
        this.show.step(stepOf({ from: sender, to: receiver }, message));
      },
    });
    this.#ends.push(close);
    return new URL(`http://127.0.0.1:${port}/mcp`);
  }

  /** Shows who is there. */
  lanes(instances: readonly Instance[]): void {
    this.show.lanes([CLIENT, ...instances.map(({ name }) => name)]);
    for (const { name, pid } of instances) this.show.event(`${name} is process ${pid}`);
  }

  /** A client with a Valise of its own, which answers questions where it is told how. */
  async client(
    url: URL,
    { principal = this.settings.principal, answer }: ClientSettings = {},
  ): Promise<Entered> {
    const valise = await openValise({ store: this.settings.store('client'), principal, allowLocal: true });
    // Its servers are on this machine on purpose.
    valise.events.on('warning', () => {});
    this.#ends.push(() => valise.close());
    const capabilities = answer ? ELICITATION : {};
    const client = await makeClient({ sdk: 'v2', era: 'modern', capabilities });
    if (answer)
      client.setRequestHandler('elicitation/create', async ({ params }) => (await answer(params)) as never);
    await valise.connect(client, valise.http(url, { resume: false }));
    this.#ends.push(() => client.close());
    return { client, valise };
  }

  /** Answers a question: a person does, where there is one; else the tour does with what is given. */
  async answer(params: unknown, given: Readonly<Record<string, string>>): Promise<Elicited> {
    await this.show.shown();
    const { interactive } = this.settings;
    const source = { given: new Map(interactive ? [] : Object.entries(given)), interactive };
    try {
      return await answerElicitation(params, source);
    } catch (error) {
      // Nobody comes back to a tour later.
      if (error instanceof LeaveOpen) return { action: 'cancel' };
      throw error;
    }
  }

  /** Kills an instance as a crash would. */
  async kill(instance: Instance, why: string): Promise<void> {
    await instance.kill();
    this.show.event(`${instance.name} (process ${instance.pid}) is killed with SIGKILL ${why}`);
  }

  event(what: string): void {
    this.show.event(what);
  }

  /** Says that something is so, and whether it is. */
  claim(claim: string, held: boolean): void {
    this.#claims = { made: this.#claims.made + 1, failed: this.#claims.failed + (held ? 0 : 1) };
    this.show.claim({ held, claim });
  }

  /** Ends everything that the story began, the last first. */
  async close(): Promise<void> {
    for (const end of this.#ends.reverse()) await end().catch(() => undefined);
    await this.processes.close();
  }
}

/** Settings of a client on the stage. */
interface ClientSettings {
  readonly principal?: string;
  readonly answer?: (params: unknown) => Promise<Elicited>;
}

/** A connected client. */
export interface Entered {
  readonly client: Awaited<ReturnType<typeof makeClient>>;
  readonly valise: ClientValise;
}

/** The text of a result. */
export function textOf(result: { readonly content?: unknown }): string {
  const content = Array.isArray(result.content) ? (result.content as { readonly text?: unknown }[]) : [];
  return content.map(({ text }) => (typeof text === 'string' ? text : '')).join('\n');
}

/** A story of the tour. */
export interface Story {
  readonly name: string;
  readonly title: string;
  readonly about: string;
  tell(stage: Stage): Promise<void>;
}
