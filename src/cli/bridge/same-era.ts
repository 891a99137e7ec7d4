import type { Id, Message } from '../../wire/index.ts';
import type { HostQuestions } from './host-questions.ts';

/** Between a host and a server that speak the same era: every message goes on as it came. */
export class SameEra {
  readonly #questions: HostQuestions;
  readonly #toServer: (message: Message) => void;

  constructor(questions: HostQuestions, toServer: (message: Message) => void) {
    this.#questions = questions;
    this.#toServer = toServer;
  }

  fromHost(message: Message): void {
    this.#toServer(message);
  }

  fromServer(message: Message): void {
    this.#questions.pass(this, message, this.#toServer);
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
