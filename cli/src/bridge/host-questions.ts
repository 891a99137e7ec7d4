import {
  type Id,
  isNotification,
  isRequest,
  type Message,
  type Request,
  type Response,
  type RpcError,
} from 'mcp-valise/wire';

type Send = (message: Message) => unknown;

/** The answer to a server's question that was withdrawn because the host cancelled the call. */
export const CALL_CANCELLED: RpcError = {
  code: -32000,
  message: 'The host cancelled the call that this was asked in.',
};

/** A question for the host; `id` is the server's id for it, if it has one. */
type Question = Omit<Request, 'id'> & { readonly id?: Id };

interface Open {
  /** The asker, by which the question can be withdrawn. */
  readonly owner: object;
  readonly serverId: Id | undefined;
  /** The calls in which it may have been asked; the older era does not say which one it is. */
  readonly calls: readonly Request[];
  /** Receives the answer, or undefined if the question was withdrawn without one. */
  settle(answer: Response | undefined): void;
}

/**
 * All questions that the host has not answered, whoever asks them. They share one table so that no answer is mistaken for
 * the answer to another question, however often the server changes.
 */
export class HostQuestions {
  readonly #toHost: Send;
  readonly #open = new Map<unknown, Open>();
  /** Withdrawn questions, which the host may have answered before it received the cancellation. */
  readonly #withdrawn = new Set<unknown>();
  #count = 0;

  constructor(toHost: Send) {
    this.#toHost = toHost;
  }

  ask(owner: object, question: Question, settle: Open['settle'], calls: readonly Request[] = []): void {
    const { id: serverId } = question;
    // Servers count ids from 0, so the next server soon reuses an id for which an answer may still arrive. Hosts on the v1
    // SDK also ignore the cancellation of id 0.
    const isFree = serverId !== undefined && serverId !== 0 && !this.#withdrawn.has(serverId);
    const id = isFree ? serverId : `valise-ask:${++this.#count}`;
    this.#open.set(id, { owner, serverId, calls, settle });
    this.#toHost({ ...question, id });
  }

  /**
   * Passes a server message to the host and, if it is a question asked during one of `calls`, the answer back to the server.
   */
  pass(owner: object, message: Message, toServer: Send, calls: readonly Request[] = []): void {
    if (isRequest(message)) {
      const settle = (answer: Response | undefined): void => {
        if (answer) toServer({ ...answer, id: message.id });
      };
      this.ask(owner, message, settle, calls);
    } else if (isNotification(message) && message.method === 'notifications/cancelled') {
      const { requestId } = message.params ?? {};
      const [id] =
        [...this.#open].find(([, open]) => open.owner === owner && open.serverId === requestId) ?? [];
      // A server may cancel a question that was already withdrawn because its call was cancelled.
      if (id === undefined && this.#withdrawn.has(requestId)) return;
      this.#open.delete(id);
      this.#toHost({ ...message, params: { ...message.params, requestId: id ?? requestId } });
    } else this.#toHost(message);
  }

  /** Withdraws all unanswered questions, or only those of one owner. */
  withdraw(owner?: object): void {
    for (const [id, open] of [...this.#open])
      if (owner === undefined || open.owner === owner) this.#withdraw(id, open, undefined);
  }

  /** Withdraws the questions that only the cancelled call, and none of `others`, can have asked. */
  cancelled(call: Request, others: readonly Request[]): void {
    for (const [id, open] of [...this.#open])
      if (open.calls.includes(call) && !open.calls.some((other) => others.includes(other)))
        this.#withdraw(id, open, { jsonrpc: '2.0', id: null, error: CALL_CANCELLED });
  }

  #withdraw(id: unknown, open: Open, answer: Response | undefined): void {
    this.#open.delete(id);
    this.#withdrawn.add(id);
    this.#toHost({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } });
    open.settle(answer);
  }

  /** Whether the host's message answers a question. Also true for a withdrawn question, whose answer is dropped. */
  answered(message: Message): boolean {
    if ('method' in message) return false;
    const open = this.#open.get(message.id);
    this.#open.delete(message.id);
    open?.settle(message);
    return open !== undefined || this.#withdrawn.delete(message.id);
  }
}
