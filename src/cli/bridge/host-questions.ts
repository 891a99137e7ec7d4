import {
  type Id,
  isNotification,
  isRequest,
  type Message,
  type Request,
  type Response,
} from '../../wire/index.ts';

type Send = (message: Message) => unknown;

/** What a host is asked; the id is what the server calls it, where it does. */
type Question = Omit<Request, 'id'> & { readonly id?: Id };

interface Open {
  /** Whose question it is; it can be taken back by this. */
  readonly owner: object;
  readonly serverId: Id | undefined;
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

  ask(owner: object, question: Question, settle: Open['settle']): void {
    const { id: serverId } = question;
    // Servers count from 0: another one soon asks under an id that an answer may still come for.
    const isFree = serverId !== undefined && !this.#withdrawn.has(serverId);
    const id = isFree ? serverId : `valise-ask:${++this.#count}`;
    this.#open.set(id, { owner, serverId, settle });
    this.#toHost({ ...question, id });
  }

  /** Hands a message of the server on, and the answer back where it asks something. */
  pass(owner: object, message: Message, toServer: Send): void {
    if (isRequest(message))
      this.ask(owner, message, (answer) => {
        if (answer) toServer({ ...answer, id: message.id });
      });
    else if (isNotification(message) && message.method === 'notifications/cancelled') {
      const { requestId } = message.params ?? {};
      const [id] =
        [...this.#open].find(([, open]) => open.owner === owner && open.serverId === requestId) ?? [];
      this.#open.delete(id);
      this.#toHost({ ...message, params: { ...message.params, requestId: id ?? requestId } });
    } else this.#toHost(message);
  }

  /** Takes back what the host has not answered: all, or what one owner has asked. */
  withdraw(owner?: object): void {
    for (const [id, open] of [...this.#open])
      if (owner === undefined || open.owner === owner) {
        this.#open.delete(id);
        this.#withdrawn.add(id);
        this.#toHost({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } });
        open.settle(undefined);
      }
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
