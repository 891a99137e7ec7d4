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

/** What people are asked, or models: it takes its time, and a host can take it back. */
const QUESTIONS = new Set(['elicitation/create', 'sampling/createMessage']);

/** What stands between a host and a server that speak the same era. */
export interface SameEraOptions {
  readonly questions: HostQuestions;
  readonly asked: AskedCalls;
  toServer(message: Message): void;
  /** The calls under way in whose course the server may ask. */
  calls(): readonly Request[];
}

/** Between a host and a server that speak the same era: every message goes on as it came. */
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

  /** Servers of the older era, as the SDKs make them, do not take back what they have asked in the call. */
  #cancelled(message: Notification): void {
    const { questions, asked, toServer, calls } = this.#options;
    const requestId = message.params?.['requestId'] as Id;
    const call = calls().find(({ id }) => id === requestId);
    // Before it hears that nobody answers: it is not to go on for that.
    toServer(message);
    if (call) questions.cancelled(call, calls());
    asked.cancelled(requestId, message.params?.['reason']);
  }

  /** The id under which the host waits for a request that the server did not take. */
  refused(id: Id): Id {
    return id;
  }

  /** Nothing but questions binds a host to a server, and those are taken back. */
  leave(): boolean {
    return false;
  }
}
