import type { Message, Meta, Result } from 'mcp-valise/wire';
import { AskedCalls, type TakenBack } from './asked-calls.ts';
import { HostQuestions } from './host-questions.ts';
import { NewerHost } from './newer-host.ts';
import { OlderHost } from './older-host.ts';
import { SameEra } from './same-era.ts';
import { Senders, type Sent } from './senders.ts';
import type { ServerRequests } from './server-requests.ts';

/** A translation (or none) between a host and a server. */
export type Between = SameEra | OlderHost | NewerHost;

/** Destinations of messages. */
interface PassageOptions {
  toHost(message: Message): void;
  toServer(message: Message): Promise<void>;
  readonly own: ServerRequests;
  /** Receives a call that the host cancelled while it was being asked; nobody should answer it afterwards. */
  readonly takenBack: TakenBack;
}

/**
 * The sequence of translations between the host and the server. Only the latest handles new messages; earlier ones handle
 * only the responses to their own requests.
 */
export class Passage {
  readonly #options: PassageOptions;
  readonly #questions: HostQuestions;
  readonly #asked: AskedCalls;
  readonly #senders = new Senders<Between>();
  /** Earlier translations with questions that a newer host may still answer. */
  readonly #left: NewerHost[] = [];
  #now: Between;

  constructor(options: PassageOptions) {
    this.#options = options;
    this.#questions = new HostQuestions(options.toHost);
    this.#asked = new AskedCalls(options.takenBack);
    this.#now = this.#makeSame();
  }

  /** The current translation. */
  get now(): Between {
    return this.#now;
  }

  /** Returns the request that the server's message answers, if any, and the translation that sent it. */
  answeredBy(message: Message): Sent<Between> | undefined {
    return this.#senders.take(message);
  }

  /** Whether the host's message answers a question, including late answers, which no server receives. */
  isAnswer(message: Message): boolean {
    return this.#questions.answered(message) || this.#left.some((left) => left.isLate(message));
  }

  /** Switches to passing messages through unchanged. */
  same(): void {
    this.#become(this.#makeSame());
  }

  /** Switches to translating for a host that is older than the server. */
  older(): OlderHost {
    const { toHost, takenBack } = this.#options;
    const send = (message: Message): void => void this.#send(message, older);
    const older: OlderHost = new OlderHost(toHost, send, this.#questions, takenBack);
    this.#become(older);
    return older;
  }

  /** Switches to translating for a host that is newer than the server, which has answered `initialize`. */
  newer(introduction: Result, envelope: Meta): NewerHost {
    const { toHost, own } = this.#options;
    const toServer = (message: Message): Promise<void> => this.#send(message, newer);
    const newer: NewerHost = new NewerHost({ toHost, toServer, own, introduction, envelope });
    this.#become(newer);
    return newer;
  }

  #makeSame(): SameEra {
    const same: SameEra = new SameEra({
      questions: this.#questions,
      asked: this.#asked,
      toServer: (message) => void this.#send(message, same),
      calls: () => this.#senders.callsBy(same),
    });
    return same;
  }

  /** Replaces the current translation and withdraws its questions. */
  #become(next: Between): void {
    const before = this.#now;
    this.#now = next;
    this.#questions.withdraw();
    if (before.leave() && before instanceof NewerHost) this.#left.push(before);
  }

  #send(message: Message, by: Between): Promise<void> {
    this.#senders.note(message, by);
    return this.#options.toServer(message);
  }
}
