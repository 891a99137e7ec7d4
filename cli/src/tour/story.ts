import { type ClientValise, LeaveOpen, openValise } from 'mcp-valise/client';
import { generateKey } from 'mcp-valise/seal';
import { answerElicitation, type Elicited } from '../ask/answerer.ts';
import { ELICITATION } from '../ask/handler.ts';
import { makeClient } from '../connection/sdk.ts';
import { startLoadBalancer } from '../examples/load-balancer.ts';
import type { Presenter } from './presenter.ts';
import { type Instance, Processes } from './processes.ts';
import { stepOf } from './step.ts';

/** A message that passed through the front. */
export interface Seen {
  readonly from: 'client' | 'server';
  readonly instance: Instance;
  /** Number of the HTTP request; its response has the same number. */
  readonly exchange: number;
  readonly message: unknown;
}

/** Settings of a tour. */
export interface TourSettings {
  readonly show: Presenter;
  /** Whether a person is there to answer. */
  readonly interactive: boolean;
  /** Returns the store that `--store` names, or else one of the tour's own. */
  store(name: string): string;
  /** Returns a store in the tour's directory, which is removed when the tour ends. */
  ownStore(name: string): string;
  /** Asks the user elsewhere than on the terminal. */
  readonly ask?: ((params: unknown) => Promise<Elicited>) | undefined;
  /** Called when the processes of the story have changed. */
  readonly changed?: (() => void) | undefined;
  /** The principal of this tour alone, whatever else is in the store. */
  readonly principal: string;
}

const NAMES = ['A', 'B', 'C', 'D'];
const CLIENT = 'client';

/** The environment of a story: real processes, a front that observes messages, and clients. Closing it ends all of them. */
export class StoryRun {
  readonly show: Presenter;
  readonly settings: TourSettings;
  readonly processes = new Processes();
  readonly seen: Seen[] = [];
  readonly keys = generateKey();
  readonly #served = new Map<string, { readonly example: string; readonly args: readonly string[] }>();
  #fronted: Instance[] = [];
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

  /** The instances that requests go to. */
  get instances(): readonly Instance[] {
    return this.#fronted;
  }

  /** Starts an instance again under its name, in the place of the one that it was. */
  async restart(name: string): Promise<Instance | undefined> {
    const at = this.#fronted.findIndex((each) => each.name === name);
    const served = this.#served.get(name);
    if (at < 0 || !served) return undefined;
    const keys = { VALISE_KEYS: this.keys };
    const instance = await this.processes.serve(name, served.example, served.args, keys);
    this.#fronted[at] = instance;
    this.show.event(`${name} is started again, as process ${instance.pid}`);
    return instance;
  }

  /** Starts instances of an example that share the keys and the resources that `args` names. */
  async serve(example: string, count: number, args: readonly string[] = []): Promise<Instance[]> {
    const names = Array.from({ length: count }, () => `instance ${NAMES[this.#started++ % NAMES.length]}`);
    for (const name of names) this.#served.set(name, { example, args });
    return Promise.all(
      names.map((name) => this.processes.serve(name, example, args, { VALISE_KEYS: this.keys })),
    );
  }

  /** Starts a front for the instances: each request goes to the next one. The list may change later. */
  async open(instances: Instance[]): Promise<URL> {
    this.#fronted = instances;
    this.lanes(instances);
    const { port, close } = await startLoadBalancer({
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

  /** Shows the participants. */
  lanes(instances: readonly Instance[]): void {
    this.show.lanes([CLIENT, ...instances.map(({ name }) => name)]);
    for (const { name, pid } of instances) this.show.event(`${name} is process ${pid}`);
  }

  /** Connects a client with its own Valise, which answers questions if `answer` is given. */
  async client(
    url: URL,
    { principal = this.settings.principal, answer }: ClientSettings = {},
  ): Promise<Entered> {
    const valise = await openValise({ store: this.settings.store('client'), principal, allowLocal: true });
    // The servers are on this machine on purpose.
    valise.on('warning', () => {});
    this.#ends.push(() => valise.close());
    const capabilities = answer ? ELICITATION : {};
    const client = await makeClient({ sdk: 'v2', era: 'modern', capabilities });
    if (answer)
      client.setRequestHandler('elicitation/create', async ({ params }) => (await answer(params)) as never);
    await valise.connect(client, url, { resume: false });
    this.#ends.push(() => client.close());
    return { client, valise };
  }

  /** Answers a question: a person does if there is one; otherwise the tour uses `given`. */
  async answer(params: unknown, given: Readonly<Record<string, string>>): Promise<Elicited> {
    await this.show.shown();
    const { interactive, ask } = this.settings;
    if (ask) return ask(params);
    const source = { given: new Map(interactive ? [] : Object.entries(given)), interactive };
    try {
      return await answerElicitation(params, source);
    } catch (error) {
      // Nobody can answer later, because the tour ends.
      if (error instanceof LeaveOpen) return { action: 'cancel' };
      throw error;
    }
  }

  /** Kills an instance as a crash would. */
  async kill(instance: Instance, why: string): Promise<void> {
    await instance.kill();
    this.settings.changed?.();
    this.show.event(`${instance.name} (process ${instance.pid}) is killed with SIGKILL ${why}`);
  }

  event(what: string): void {
    this.show.event(what);
  }

  /** Records a claim and whether it held. */
  claim(claim: string, held: boolean): void {
    this.#claims = { made: this.#claims.made + 1, failed: this.#claims.failed + (held ? 0 : 1) };
    this.show.claim({ held, claim });
  }

  /** Ends everything that the story started, in reverse order. */
  async close(): Promise<void> {
    for (const end of this.#ends.reverse()) await end().catch(() => undefined);
    await this.processes.close();
  }
}

/** Settings of a client of the run. */
interface ClientSettings {
  readonly principal?: string;
  readonly answer?: (params: unknown) => Promise<Elicited>;
}

/** A connected client. */
export interface Entered {
  readonly client: Awaited<ReturnType<typeof makeClient>>;
  readonly valise: ClientValise;
}

/** Returns the text of a result. */
export function textOf(result: { readonly content?: unknown }): string {
  const content = Array.isArray(result.content) ? (result.content as { readonly text?: unknown }[]) : [];
  return content.map(({ text }) => (typeof text === 'string' ? text : '')).join('\n');
}

/** A story of the tour. */
export interface Story {
  readonly name: string;
  readonly title: string;
  readonly about: string;
  tell(run: StoryRun): Promise<void>;
}
