import { isObject } from '../../json.ts';
import type { Id, Message, Params, Response, Result } from '../../wire/index.ts';

/** Asks a host of the older era what a server of the newer one wants to know. */
export class HostRounds {
  readonly #toHost: (message: Message) => void;
  readonly #open = new Map<Id, (response: Response) => void>();
  #count = 0;

  constructor(toHost: (message: Message) => void) {
    this.#toHost = toHost;
  }

  /** Asks all questions of a round at once. What the host refuses counts as taken back. */
  async ask(questions: Readonly<Record<string, unknown>>): Promise<Readonly<Record<string, Result>>> {
    const answers = await Promise.all(
      Object.entries(questions).map(async ([key, question]) => [key, await this.#one(question)] as const),
    );
    return Object.fromEntries(answers);
  }

  /** True where the host's response answers a question of ours. */
  answered(message: Message): boolean {
    const settle =
      'id' in message && message.id !== null && message.id !== undefined
        ? this.#open.get(message.id)
        : undefined;
    if (!settle || 'method' in message) return false;
    this.#open.delete(message.id as Id);
    settle(message as Response);
    return true;
  }

  #one(question: unknown): Promise<Result> {
    const { method, params } = isObject(question) ? question : {};
    const id = `valise-ask:${++this.#count}`;
    return new Promise((resolve) => {
      this.#open.set(id, (response) =>
        resolve('result' in response ? response.result : { action: 'cancel' }),
      );
      this.#toHost({
        jsonrpc: '2.0',
        id,
        method: String(method),
        ...(isObject(params) && { params: params as Params }),
      });
    });
  }
}
