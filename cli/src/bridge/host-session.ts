import type { ClientSession, ClientValise } from 'mcp-valise/client';
import { INTRODUCTIONS, isRequest, type Message } from 'mcp-valise/wire';
import { explain } from '../exit.ts';
import { remark } from '../output.ts';

/** What comes before there can be a session. */
const BEFORE = new Set([...INTRODUCTIONS, 'ping']);

/** The data-layer session of a host, which is made when its first request comes. */
export class HostSession {
  readonly #name: string;
  readonly #valise: Pick<ClientValise, 'sessions' | 'pending'>;
  readonly #client: object;
  #opened: Promise<ClientSession | undefined> | undefined;

  /** `name`: `new`, `none`, or what it is called. */
  constructor(name: string, valise: Pick<ClientValise, 'sessions' | 'pending'>, client: object) {
    this.#name = name;
    this.#valise = valise;
    this.#client = client;
  }

  /** Sends a message, in the session where it can belong to one. */
  async run(message: Message, send: () => Promise<void>): Promise<void> {
    if (this.#name === 'none' || !isRequest(message) || BEFORE.has(message.method)) return send();
    const session = await (this.#opened ??= this.#open());
    return session ? session.run(send) : send();
  }

  /** Ends a session that nobody can come back to; where a call waits for an answer in it, it stays. */
  async end(): Promise<void> {
    const session = this.#name === 'new' ? await this.#opened : undefined;
    if (!session || session.isGone) return;
    const waits = (await this.#valise.pending.list()).some((round) => round.session?.id === session.id);
    if (!waits) await session.delete();
  }

  async #open(): Promise<ClientSession | undefined> {
    try {
      const sessions = this.#valise.sessions(this.#client);
      // With a label, it does not end with the answer to one of its calls.
      if (this.#name === 'new') return await sessions.create({ label: 'host', keep: false });
      return await sessions.named(this.#name);
    } catch (error) {
      remark(`valise connect: no session (${explain(error)}); going on without.`);
      return undefined;
    }
  }
}
