import type { Message, Meta, Result } from 'mcp-valise/wire';
import { AskedCalls, type TakenBack } from './asked-calls.ts';
import { HostQuestions } from './host-questions.ts';
import { NewerHost } from './newer-host.ts';
import { OlderHost } from './older-host.ts';
import { SameEra } from './same-era.ts';
import { Senders, type Sent } from './senders.ts';
import type { ServerRequests } from './server-requests.ts';

/** What stands between a host and a server. */
export type Between = SameEra | OlderHost | NewerHost;

/** Where messages go. */
interface PassageOptions {
  toHost(message: Message): void;
  toServer(message: Message): Promise<void>;
  readonly own: ServerRequests;
  /** The host has cancelled a call in which it was asked: nobody is to answer it any more. */
  readonly takenBack: TakenBack;
}

/**
 * All that has stood between the host and the server, one after another. Whoever comes last has the word; those before it
 * go on with what they hear of their own requests, and with nothing else.
 */
export class Passage {
  readonly #options: PassageOptions;
  readonly #questions: HostQuestions;
  readonly #asked: AskedCalls;
  readonly #senders = new Senders<Between>();
  /** Those that have asked a newer host something which it may still answer. */
  readonly #left: NewerHost[] = [];
  #now: Between;

  constructor(options: PassageOptions) {
    this.#options = options;
    this.#questions = new HostQuestions(options.toHost);
    this.#asked = new AskedCalls(options.takenBack);
    this.#now = this.#makeSame();
  }

  /** Who has the word. */
  get now(): Between {
    return this.#now;
  }

  /** What the server's message answers, if anything; whoever sent that hears it. */
  answeredBy(message: Message): Sent<Between> | undefined {
    return this.#senders.take(message);
  }

  /** True for an answer of the host to what it was asked; also for one that comes too late, which no server hears. */
  isAnswer(message: Message): boolean {
    return this.#questions.answered(message) || this.#left.some((left) => left.isLate(message));
  }

  /** From here on, host and server speak the same. */
  same(): void {
    this.#become(this.#makeSame());
  }

  /** From here on, the host is older than the server. */
  older(): OlderHost {
    const { toHost, takenBack } = this.#options;
    const send = (message: Message): void => void this.#send(message, older);
    const older: OlderHost = new OlderHost(toHost, send, this.#questions, takenBack);
    this.#become(older);
    return older;
  }

  /** From here on, the host is newer than the server, which has introduced itself. */
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

  /** Nobody is to answer any more what was asked before. */
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
