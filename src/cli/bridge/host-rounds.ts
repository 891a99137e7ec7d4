import { isObject } from '../../json.ts';
import type { Id, Message, Params, Result } from '../../wire/index.ts';

const CANCELLED: Result = { action: 'cancel' };

/** Asks a host of the older era what a server of the newer one wants to know. */
export class HostRounds {
  readonly #toHost: (message: Message) => void;
  readonly #open = new Map<Id, (answer: Result) => void>();
  /** Questions that are taken back, and that the host may have answered before it heard of it. */
  readonly #withdrawn = new Set<unknown>();
  #isOver = false;
  /** One count for all, so that no answer is taken for that to another question. */
  static #count = 0;

  constructor(toHost: (message: Message) => void) {
    this.#toHost = toHost;
  }

  /** Asks all questions of a round at once. What the host refuses counts as cancelled; none where nobody wants to know. */
  async ask(
    questions: Readonly<Record<string, unknown>>,
  ): Promise<Readonly<Record<string, Result>> | undefined> {
    if (this.#isOver) return undefined;
    const answers = await Promise.all(
      Object.entries(questions).map(async ([key, question]) => [key, await this.#one(question)] as const),
    );
    return this.#isOver ? undefined : Object.fromEntries(answers);
  }

  /** Takes back what the host has not answered, and asks no more; true where there was any. */
  withdraw(): boolean {
    this.#isOver = true;
    for (const [id, settle] of this.#open) {
      this.#withdrawn.add(id);
      this.#toHost({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } });
      settle(CANCELLED);
    }
    this.#open.clear();
    return this.#withdrawn.size > 0;
  }

  /** True where the host's response answers a question that was taken back. */
  isLate(message: Message): boolean {
    return !('method' in message) && this.#withdrawn.delete(message.id);
  }

  /** True where the host's response answers a question of ours. */
  answered(message: Message): boolean {
    const settle =
      'id' in message && message.id !== null && message.id !== undefined
        ? this.#open.get(message.id)
        : undefined;
    if (!settle || 'method' in message) return false;
    this.#open.delete(message.id as Id);
    settle('result' in message ? message.result : CANCELLED);
    return true;
  }

  #one(question: unknown): Promise<Result> {
    const { method, params } = isObject(question) ? question : {};
    const id = `valise-ask:${++HostRounds.#count}`;
    return new Promise((resolve) => {
      this.#open.set(id, resolve);
      this.#toHost({
        jsonrpc: '2.0',
        id,
        method: String(method),
        ...(isObject(params) && { params: params as Params }),
      });
    });
  }
}
