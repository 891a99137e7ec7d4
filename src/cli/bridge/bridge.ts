import {
  eraOf,
  type Id,
  isRequest,
  type Message,
  type Meta,
  type Params,
  type Request,
  type Result,
} from '../../wire/index.ts';
import { begin, discover } from './first-words.ts';
import { NewerHost } from './newer-host.ts';
import { envelopeOf, introductionOf } from './newer-shapes.ts';
import { OlderHost } from './older-host.ts';
import { isGone, isRefusal } from './refusal.ts';
import { Senders } from './senders.ts';
import { ServerRequests } from './server-requests.ts';
import type { Standing } from './standing.ts';

/** What stands between a host and a server of different eras; nothing where they speak the same. */
type Between = OlderHost | NewerHost | undefined;

/** Where the bridge's messages go, and what it does with them. */
export interface BridgeOptions {
  toHost(message: Message): void;
  /** Resolves when the message is delivered, or cannot be. */
  toServer(message: Message): Promise<void>;
  /**
   * When a newer host is led to an older server. `insisting`: once it speaks the newer era without having asked for it,
   * or after a refusal; one that can fall back then does, and nothing is translated. `always`: at once, for hosts that
   * give up when they are refused.
   */
  readonly newer?: 'never' | 'insisting' | 'always' | undefined;
  /** What an older server keeps for its host; a newer one in its place is asked for it as well. */
  readonly standing?: Pick<Standing, 'wishes' | 'news'> | undefined;
}

/**
 * Lets a host and a server talk: message for message where they speak the same era, translated where the host begins
 * in one era and the server turns out to know only the other.
 */
export class Bridge {
  readonly #toHost: (message: Message) => void;
  readonly #toServer: (message: Message) => Promise<void>;
  readonly #own: ServerRequests;
  readonly #standing: BridgeOptions['standing'];
  #between: Between;
  /** What stood there before, and has asked the host something that it may still answer. */
  readonly #left: (OlderHost | NewerHost)[] = [];
  readonly #senders = new Senders<Between>();
  #initialize: Request | undefined;
  /** What an older host has begun with. */
  #introduced: Params = {};
  /** Requests that the host waits for. */
  readonly #waiting = new Map<Id, Request>();
  /** What the server answered to an `initialize` of our own, as long as the host has not sent one. */
  #begun: Result | undefined;
  /** True once it is known which era is spoken, or nobody wants to know. */
  #met: boolean;
  /** True where a refused `server/discover` is translated, in place of being handed to the host. */
  #insists: boolean;
  readonly #isNever: boolean;
  /** What comes in while the bridge asks the server something itself. */
  #held: (() => void)[] | undefined;

  constructor({ toHost, toServer, newer = 'insisting', standing }: BridgeOptions) {
    this.#toHost = (message) => {
      if (!('method' in message)) this.#waiting.delete(message.id as Id);
      toHost(message);
    };
    this.#standing = standing;
    this.#toServer = toServer;
    this.#own = new ServerRequests('valise-bridge', toServer);
    this.#isNever = newer === 'never';
    this.#met = this.#isNever;
    this.#insists = newer === 'always';
  }

  fromHost(message: Message): void {
    if (this.#held) {
      this.#held.push(() => this.fromHost(message));
      return;
    }
    if (isRequest(message)) this.#waiting.set(message.id, message);
    else if ('method' in message && message.method === 'notifications/cancelled')
      this.#waiting.delete(message.params?.['requestId'] as Id);
    if (!this.#left.some((left) => left.isLate(message))) this.#forward(message);
  }

  #forward(message: Message): void {
    if (this.#begun && isRequest(message) && message.method === 'initialize')
      this.#fallBack(message, this.#begun);
    else if (this.#between) this.#between.fromHost(message);
    else if (this.#begun && 'method' in message && message.method === 'notifications/initialized')
      this.#begun = undefined;
    else if (isRequest(message) && eraOf(message) === 'modern' && !this.#met) void this.#meet(message);
    else {
      if (isRequest(message) && message.method === 'initialize') {
        this.#initialize = message;
        this.#introduced = message.params ?? {};
      }
      void this.#send(message, undefined);
    }
  }

  #send(message: Message, by: Between): Promise<void> {
    this.#senders.note(message, by);
    return this.#toServer(message);
  }

  /** Takes a message of the server, or one in its place that says why the server could not be reached. */
  fromServer(message: Message, failure?: unknown): void {
    if (this.#own.answered(message, failure)) return;
    if (this.#held) {
      this.#held.push(() => this.fromServer(message, failure));
      return;
    }
    const by = this.#senders.of(message, this.#between);
    const waiting = isGone(failure) && !('method' in message) && this.#waiting.get(message.id as Id);
    if (waiting) void this.#changed(waiting, by, message);
    else if (by) by.fromServer(message);
    else if (this.#initialize && !('method' in message) && message.id === this.#initialize.id)
      this.#initialized(this.#initialize, message);
    else this.#toHost(message);
  }

  #initialized(initialize: Request, message: Message): void {
    this.#initialize = undefined;
    this.#met = true;
    if ('error' in message) void this.#refused(initialize, message);
    else this.#toHost(message);
  }

  /** An older host was refused: does the server speak the newer era? */
  async #refused(initialize: Request, refusal: Message): Promise<void> {
    this.#held = [];
    const { response } = await discover(this.#own);
    if ('result' in response) {
      this.#between = this.#older();
      this.#between.fromHost(initialize);
    } else this.#toHost(refusal);
    this.#release();
  }

  #older(): OlderHost {
    const older: OlderHost = new OlderHost(this.#toHost, (message) => void this.#send(message, older));
    return older;
  }

  /** The server has become one of the other era. What it did not take is sent once more, and only once, as it knows it. */
  async #changed(request: Request, by: Between, refusal: Message): Promise<void> {
    // Another call may have noticed first, and all listeners are sent once more then.
    const isFirst = by === this.#between;
    if (!isFirst && request.method === 'subscriptions/listen') return;
    this.#waiting.delete(request.id);
    if (isFirst && !(await this.#meetAgain(request))) {
      this.#toHost(refusal);
      return;
    }
    // Another object: a message that the transport has seen before would pass by Valise.
    this.#forward({ ...request });
    if (isFirst) this.#listenAgain();
  }

  /** Whoever told the listeners of the host will not do so any more. */
  #listenAgain(): void {
    for (const request of [...this.#waiting.values()])
      if (request.method === 'subscriptions/listen') this.fromHost({ ...request });
  }

  async #meetAgain(request: Request): Promise<boolean> {
    const before = this.#between;
    if (eraOf(request) === 'modern') {
      if (this.#isNever) return false;
      this.#between = undefined;
      this.#begun = undefined;
      this.#met = false;
      this.#leave(before);
      return true;
    }
    this.#held = [];
    const isMet = before instanceof OlderHost ? await this.#goBack(before) : await this.#takeOver();
    if (isMet) {
      this.#leave(before);
      for (const news of this.#standing?.news() ?? []) this.#toHost(news);
    }
    this.#release();
    return isMet;
  }

  /** What was translated before goes on with what it hears of its own requests, and with nothing else. */
  #leave(before: Between): void {
    if (before?.leave()) this.#left.push(before);
  }

  /** A newer server is in the place of the older one that the host has begun at. */
  async #takeOver(): Promise<boolean> {
    const { response } = await discover(this.#own);
    if (!('result' in response)) return false;
    const between = this.#older();
    between.takeOver(this.#introduced, response.result, this.#standing?.wishes() ?? []);
    this.#between = between;
    return true;
  }

  /** An older server is there, and the host needs no translation any more. */
  async #goBack(between: OlderHost): Promise<boolean> {
    if (!(await this.#begin(this.#introduced))) return false;
    for (const { method, params } of between.wishes()) void this.#own.send(method, params);
    this.#between = undefined;
    return true;
  }

  /**
   * A newer host's first word. The server is asked what it knows before it hears any: an older one would carry out some
   * requests, half understood.
   */
  async #meet(first: Request): Promise<void> {
    this.#held = [];
    this.#met = true;
    const envelope = first.params?._meta ?? {};
    const isDiscover = first.method === 'server/discover';
    const answered = await this.#own.send(
      'server/discover',
      isDiscover && first.params ? first.params : { _meta: envelopeOf(envelope) },
    );
    const isWanted = isRefusal(answered) && (this.#insists || !isDiscover);
    const introduction = isWanted ? await this.#begin(introductionOf(envelope)) : undefined;
    if (introduction) this.#translate(first, introduction, envelope);
    else if (isDiscover) {
      this.#met = 'result' in answered.response;
      this.#insists ||= isRefusal(answered);
      this.#toHost({ ...answered.response, id: first.id });
    } else void this.#send(first, undefined);
    this.#release();
  }

  #translate(first: Request, introduction: Result, envelope: Meta): void {
    this.#begun = introduction;
    const between: NewerHost = new NewerHost({
      toHost: this.#toHost,
      toServer: (message) => this.#send(message, between),
      own: this.#own,
      introduction,
      envelope,
    });
    this.#between = between;
    between.fromHost(first);
  }

  #begin(params: Params): Promise<Result | undefined> {
    return begin(this.#own, this.#toServer, params);
  }

  /** The host prefers the older era after all, which has begun already: from here on, nothing is translated. */
  #fallBack({ id }: Request, result: Result): void {
    this.#between = undefined;
    this.#toHost({ jsonrpc: '2.0', id, result });
  }

  #release(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const pass of held) pass();
  }
}
