import {
  type Id,
  isObject,
  isRequest,
  type Message,
  type Notification,
  type Params,
  type Request,
  type Response,
  type Result,
} from 'mcp-valise/internal';
import { CALL_CANCELLED } from './shapes.ts';

type Send = (message: Message) => unknown;

/** Above this number, the oldest withdrawn questions are forgotten. */
const MAX_WITHDRAWN = 1000;

interface Open {
  /** The server's id of the question, if it has one. */
  readonly serverId?: Id | undefined;
  /** What the question can be withdrawn by. */
  readonly owner?: object | undefined;
  /** The calls in which it may have been asked. The older era does not say which one it is. */
  readonly calls?: readonly Request[] | undefined;
  /** Receives the answer, or undefined if the question was withdrawn without one. */
  settle(answer: Response | undefined): void;
}

/**
 * The questions that the host has not answered, in one table, so that no answer is taken for the answer to another question
 * even if the server is replaced.
 */
export class HostQuestions {
  readonly #toHost: Send;
  readonly #toServer: Send;
  readonly #open = new Map<unknown, Open>();
  /** Withdrawn questions. The host may have answered one before it received the cancellation. */
  readonly #withdrawn = new Set<unknown>();
  #count = 0;

  constructor(toHost: Send, toServer: Send) {
    this.#toHost = toHost;
    this.#toServer = toServer;
  }

  /** Passes a request or notification of the server to the host. `calls` are those in which it may have been asked. */
  pass(message: Request | Notification, calls: readonly Request[] = []): void {
    if (isRequest(message)) {
      const { id: serverId } = message;
      const settle = (answer?: Response): unknown => answer && this.#toServer({ ...answer, id: serverId });
      this.#ask(message, { serverId, calls, settle });
    } else if (message.method === 'notifications/cancelled') this.#takenBack(message);
    else this.#toHost(message);
  }

  /**
   * Asks an older host all questions of an `input_required` result. A question that the host refuses counts as cancelled.
   * Resolves to undefined if the questions were withdrawn.
   */
  async round(
    owner: object,
    questions: Readonly<Record<string, unknown>>,
  ): Promise<Record<string, Result> | undefined> {
    const answers = await Promise.all(
      Object.entries(questions).map(async ([key, question]) => {
        const { method, params } = isObject(question) ? question : {};
        const asked = { method: String(method), ...(isObject(params) && { params: params as Params }) };
        const answer = await new Promise<Response | undefined>((settle) =>
          this.#ask({ jsonrpc: '2.0', ...asked }, { owner, settle }),
        );
        return answer && ([key, 'result' in answer ? answer.result : { action: 'cancel' }] as const);
      }),
    );
    const given = answers.filter((answer) => answer !== undefined);
    return given.length === answers.length ? Object.fromEntries(given) : undefined;
  }

  /** Withdraws all open questions, or only those of one owner. */
  withdraw(owner?: object): void {
    for (const [id, open] of [...this.#open])
      if (owner === undefined || open.owner === owner) this.#withdraw(id, open, undefined);
  }

  /** Withdraws the questions that only the cancelled call, and none of `others`, can have asked. */
  cancelled(call: Request, others: readonly Request[]): void {
    for (const [id, open] of [...this.#open])
      if (open.calls?.includes(call) && !open.calls.some((other) => others.includes(other)))
        this.#withdraw(id, open, { jsonrpc: '2.0', id: null, error: CALL_CANCELLED });
  }

  /** Whether the host's message answers a question. Also true for a withdrawn one, whose answer is dropped. */
  answered(message: Response): boolean {
    const open = this.#open.get(message.id);
    this.#open.delete(message.id);
    open?.settle(message);
    return open !== undefined || this.#withdrawn.delete(message.id);
  }

  #ask(question: Omit<Request, 'id'>, open: Open): void {
    const { serverId } = open;
    // Servers count from 0, so the next server soon uses the id of a withdrawn question, for which an answer may still
    // arrive. Hosts on the v1 SDK also ignore the cancellation of id 0.
    const isFree = serverId !== undefined && serverId !== 0 && !this.#withdrawn.has(serverId);
    const id = isFree ? serverId : `valise-ask:${++this.#count}`;
    this.#open.set(id, open);
    this.#toHost({ ...question, id });
  }

  /** Handles a server that cancels its question. It may have been withdrawn already, because its call was cancelled. */
  #takenBack(message: Notification): void {
    const { requestId } = message.params ?? {};
    const [id] =
      [...this.#open].find(([, { serverId }]) => serverId !== undefined && serverId === requestId) ?? [];
    if (id === undefined && this.#withdrawn.has(requestId)) return;
    this.#open.delete(id);
    this.#toHost({ ...message, params: { ...message.params, requestId: id ?? requestId } });
  }

  #withdraw(id: unknown, open: Open, answer: Response | undefined): void {
    this.#open.delete(id);
    this.#withdrawn.add(id);
    const [oldest] = this.#withdrawn.size > MAX_WITHDRAWN ? this.#withdrawn : [];
    if (oldest !== undefined) this.#withdrawn.delete(oldest);
    this.#toHost({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } });
    open.settle(answer);
  }
}
