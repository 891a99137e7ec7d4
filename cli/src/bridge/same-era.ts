import {
  type Id,
  isNotification,
  isRequest,
  type Message,
  type Notification,
  type Request,
} from 'mcp-valise/wire';
import type { AskedCalls } from './asked-calls.ts';
import type { HostQuestions } from './host-questions.ts';

/** Requests to people or models: they take time, and a host can cancel the call meanwhile. */
const QUESTIONS = new Set(['elicitation/create', 'sampling/createMessage']);

/** Dependencies of {@link SameEra}. */
export interface SameEraOptions {
  readonly questions: HostQuestions;
  readonly asked: AskedCalls;
  toServer(message: Message): void;
  /** Returns the calls under way during which the server may ask. */
  calls(): readonly Request[];
}

/** Passes every message through unchanged between a host and a server that speak the same era. */
export class SameEra {
  readonly #options: SameEraOptions;

  constructor(options: SameEraOptions) {
    this.#options = options;
  }

  fromHost(message: Message): void {
    if (isNotification(message) && message.method === 'notifications/cancelled') this.#cancelled(message);
    else {
      if (isRequest(message)) this.#options.asked.goesOn(message);
      this.#options.toServer(message);
    }
  }

  fromServer(message: Message, answered?: Request): void {
    const { questions, asked, toServer, calls } = this.#options;
    if (answered && !('method' in message)) asked.answered(answered, message);
    const asksLong = isRequest(message) && QUESTIONS.has(message.method);
    questions.pass(this, message, toServer, asksLong ? calls() : []);
  }

  /** Also withdraws the call's questions, because older-era servers built with the SDKs do not. */
  #cancelled(message: Notification): void {
    const { questions, asked, toServer, calls } = this.#options;
    const requestId = message.params?.['requestId'] as Id;
    const call = calls().find(({ id }) => id === requestId);
    // Sent before the questions are rejected, so that the server does not continue the call because of the rejection.
    toServer(message);
    if (call) questions.cancelled(call, calls());
    asked.cancelled(requestId, message.params?.['reason']);
  }

  /** Returns the id under which the host waits for a request that the server did not accept. */
  refused(id: Id): Id {
    return id;
  }

  /** Returns false: only questions tie a host to a server, and those are withdrawn. */
  leave(): boolean {
    return false;
  }
}
