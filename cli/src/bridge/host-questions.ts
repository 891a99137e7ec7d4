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

/** What a server hears whose question was taken back since nobody waits for the call. */
export const CALL_CANCELLED: RpcError = {
  code: -32000,
  message: 'The host cancelled the call that this was asked in.',
};

/** What a host is asked; the id is what the server calls it, where it does. */
type Question = Omit<Request, 'id'> & { readonly id?: Id };

interface Open {
  /** Whose question it is; it can be taken back by this. */
  readonly owner: object;
  readonly serverId: Id | undefined;
  /** The calls that it may have been asked in: the older era does not say which it is. */
  readonly calls: readonly Request[];
  /** Hears the answer; none where nobody wants to know any more. */
  settle(answer: Response | undefined): void;
}

/**
 * What the host is asked and has not answered, whoever asks it. One place for all, so that no answer is taken for that to
 * another question, however often the server changes.
 */
export class HostQuestions {
  readonly #toHost: Send;
  readonly #open = new Map<unknown, Open>();
  /** Questions that are taken back, and that the host may have answered before it heard of it. */
  readonly #withdrawn = new Set<unknown>();
  #count = 0;

  constructor(toHost: Send) {
    this.#toHost = toHost;
  }

  ask(owner: object, question: Question, settle: Open['settle'], calls: readonly Request[] = []): void {
    const { id: serverId } = question;
    // Servers count from 0: another one soon asks under an id that an answer may still come for. And hosts of the v1 SDK
    // do not hear that 0 itself is taken back.
    const isFree = serverId !== undefined && serverId !== 0 && !this.#withdrawn.has(serverId);
    const id = isFree ? serverId : `valise-ask:${++this.#count}`;
    this.#open.set(id, { owner, serverId, calls, settle });
    this.#toHost({ ...question, id });
  }

  /** Hands a message of the server on, and the answer back where it asks something, in the course of one of these calls. */
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
      // A server may say so of what has been taken back when it heard of the cancelled call.
      if (id === undefined && this.#withdrawn.has(requestId)) return;
      this.#open.delete(id);
      this.#toHost({ ...message, params: { ...message.params, requestId: id ?? requestId } });
    } else this.#toHost(message);
  }

  /** Takes back what the host has not answered: all, or what one owner has asked. */
  withdraw(owner?: object): void {
    for (const [id, open] of [...this.#open])
      if (owner === undefined || open.owner === owner) this.#withdraw(id, open, undefined);
  }

  /** The host has cancelled a call: what can have been asked in no other one that is under way, nobody is to answer. */
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

  /** True where the host's message answers a question, also one that was taken back, whose answer nobody hears. */
  answered(message: Message): boolean {
    if ('method' in message) return false;
    const open = this.#open.get(message.id);
    this.#open.delete(message.id);
    open?.settle(message);
    return open !== undefined || this.#withdrawn.delete(message.id);
  }
}
