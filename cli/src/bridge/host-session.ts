import type { ClientSession, ClientValise } from 'mcp-valise/client';
import { INTRODUCTIONS, isRequest, type Message } from 'mcp-valise/wire';
import { explain } from '../exit.ts';
import { remark } from '../output.ts';

/** Methods that come before a session can exist. */
const BEFORE = new Set([...INTRODUCTIONS, 'ping']);

/** The data-layer session of a host, created on the host's first request. */
export class HostSession {
  readonly #name: string;
  readonly #valise: Pick<ClientValise, 'sessions' | 'pending'>;
  readonly #client: object;
  #opened: Promise<ClientSession | undefined> | undefined;

  /** `name`: `new`, `none`, or the name of the session. */
  constructor(name: string, valise: Pick<ClientValise, 'sessions' | 'pending'>, client: object) {
    this.#name = name;
    this.#valise = valise;
    this.#client = client;
  }

  /** Sends a message, within the session if it can belong to one. */
  async run(message: Message, send: () => Promise<void>): Promise<void> {
    if (this.#name === 'none' || !isRequest(message) || BEFORE.has(message.method)) return send();
    const session = await (this.#opened ??= this.#open());
    return session ? session.run(send) : send();
  }

  /** Ends a session that nobody can resume. It stays if one of its calls waits for an answer. */
  async end(): Promise<void> {
    const session = this.#name === 'new' ? await this.#opened : undefined;
    if (!session || session.isGone) return;
    const waits = (await this.#valise.pending.list()).some((round) => round.session?.id === session.id);
    if (!waits) await session.delete();
  }

  async #open(): Promise<ClientSession | undefined> {
    try {
      const sessions = this.#valise.sessions(this.#client);
      // A session with a label does not end with the answer to one of its calls.
      if (this.#name === 'new') return await sessions.create({ label: 'host', keep: false });
      return await sessions.named(this.#name);
    } catch (error) {
      remark(`valise connect: no session (${explain(error)}); going on without.`);
      return undefined;
    }
  }
}
