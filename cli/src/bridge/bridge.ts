import { envelopeOf } from 'mcp-valise/internal';
import {
  eraOf,
  isRequest,
  type Message,
  type Meta,
  type Params,
  type Request,
  type Response,
  type Result,
} from 'mcp-valise/wire';
import type { TakenBack } from './asked-calls.ts';
import { begin, discover } from './first-words.ts';
import { goesOn, introductionOf } from './newer-shapes.ts';
import { OlderHost } from './older-host.ts';
import { type Between, Passage } from './passage.ts';
import { isGone, isRefusal } from './refusal.ts';
import { SameEra } from './same-era.ts';
import type { Sent } from './senders.ts';
import { SERVER_CHANGED } from './server-changed.ts';
import { ServerRequests } from './server-requests.ts';
import type { Standing } from './standing.ts';
import { isListener, Waiting } from './waiting.ts';

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
  /** Forgets the round of a call that the host has cancelled while it was asked. */
  readonly takenBack?: TakenBack | undefined;
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
  readonly #passage: Passage;
  readonly #waiting = new Waiting();
  #initialize: Request | undefined;
  /** What an older host has begun with. */
  #introduced: Params = {};
  /** What the server answered to an `initialize` of our own, as long as the host has not sent one. */
  #begun: Result | undefined;
  /** True once it is known which era is spoken, or nobody wants to know. */
  #met: boolean;
  /** True where a refused `server/discover` is translated, in place of being handed to the host. */
  #insists: boolean;
  readonly #isNever: boolean;
  /** What comes in while the bridge asks the server something itself. */
  #held: (() => void)[] | undefined;

  constructor({ toHost, toServer, newer = 'insisting', standing, takenBack = () => {} }: BridgeOptions) {
    this.#toHost = (message) => {
      this.#waiting.heard(message);
      toHost(message);
    };
    this.#standing = standing;
    this.#toServer = toServer;
    this.#own = new ServerRequests('valise-bridge', toServer);
    this.#passage = new Passage({ toHost: this.#toHost, toServer, own: this.#own, takenBack });
    this.#isNever = newer === 'never';
    this.#met = this.#isNever;
    this.#insists = newer === 'always';
  }

  fromHost(message: Message): void {
    if (this.#held) {
      this.#held.push(() => this.fromHost(message));
      return;
    }
    this.#waiting.asked(message);
    if (!this.#passage.isAnswer(message)) this.#forward(message);
  }

  #forward(message: Message): void {
    if (this.#begun && isRequest(message) && message.method === 'initialize')
      this.#fallBack(message, this.#begun);
    else if (!(this.#passage.now instanceof SameEra)) this.#passage.now.fromHost(message);
    else if (this.#begun && 'method' in message && message.method === 'notifications/initialized')
      this.#begun = undefined;
    else if (isRequest(message) && eraOf(message) === 'modern' && !this.#met) void this.#meet(message);
    else {
      if (isRequest(message) && message.method === 'initialize') {
        this.#initialize = message;
        this.#introduced = message.params ?? {};
      }
      this.#passage.now.fromHost(message);
    }
  }

  /** Takes a message of the server, or one in its place that says why the server could not be reached. */
  fromServer(message: Message, failure?: unknown): void {
    if (this.#own.answered(message, failure)) return;
    if (this.#held) {
      this.#held.push(() => this.fromServer(message, failure));
      return;
    }
    const sent = this.#passage.answeredBy(message);
    if (sent && isGone(failure)) this.#refusedBy(sent, message as Response);
    else if (this.#initialize && sent?.request === this.#initialize)
      this.#initialized(this.#initialize, message);
    else (sent?.by ?? this.#passage.now).fromServer(message, sent?.request);
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
    if ('result' in response) this.#passage.older().fromHost(initialize);
    else this.#toHost(refusal);
    this.#release();
  }

  #refusedBy(sent: Sent<Between>, { id: _, ...refusal }: Response): void {
    const request = this.#waiting.get(sent.by.refused(sent.request.id));
    if (request) void this.#changed(request, sent, { ...refusal, id: request.id } as Response);
  }

  /**
   * The server has become one of the other era. What it did not take is sent once more, and only once, as it knows it; but
   * not the answers to what the server before has asked.
   */
  async #changed(request: Request, { request: sent, by }: Sent<Between>, refusal: Response): Promise<void> {
    // Another call may have noticed first, and all listeners are sent once more then.
    const isFirst = by === this.#passage.now;
    if (!isFirst && isListener(request)) return;
    const isModern = eraOf(request) === 'modern';
    // Without a pause where none is needed: another refusal may be there already, and must not count as first.
    const isMet = !isFirst || (isModern ? this.#startOver() : await this.#meetAgain());
    if (goesOn(sent)) this.#end({ jsonrpc: '2.0', id: request.id, error: SERVER_CHANGED });
    else if (!isMet || !this.#waiting.mayGoAgain(request)) this.#end(refusal);
    // Another object: a message that the transport has seen before would pass by Valise.
    else this.fromHost({ ...request });
    if (isFirst && isMet) this.#listenAgain(request);
  }

  /** Answers the host, which may have taken its request back by now. */
  #end(response: Response): void {
    if (this.#waiting.get(response.id ?? undefined)) this.#toHost(response);
  }

  /** Whoever told the listeners of the host will not do so any more. */
  #listenAgain(but: Request): void {
    for (const request of this.#waiting.listeners()) if (request.id !== but.id) this.fromHost({ ...request });
  }

  /** What a newer host asks next finds out what the server is now. */
  #startOver(): boolean {
    if (this.#isNever) return false;
    this.#passage.same();
    this.#begun = undefined;
    this.#met = false;
    return true;
  }

  /** An older host does not ask. */
  async #meetAgain(): Promise<boolean> {
    const { now } = this.#passage;
    this.#held = [];
    const isMet = now instanceof OlderHost ? await this.#goBack(now) : await this.#takeOver();
    if (isMet) for (const news of this.#standing?.news() ?? []) this.#toHost(news);
    this.#release();
    return isMet;
  }

  /** A newer server is in the place of the older one that the host has begun at. */
  async #takeOver(): Promise<boolean> {
    const { response } = await discover(this.#own);
    if (!('result' in response)) return false;
    this.#passage.older().takeOver(this.#introduced, response.result, this.#standing?.wishes() ?? []);
    return true;
  }

  /** An older server is there, and the host needs no translation any more. */
  async #goBack(before: OlderHost): Promise<boolean> {
    if (!(await this.#begin(this.#introduced))) return false;
    for (const { method, params } of before.wishes()) void this.#own.send(method, params);
    this.#passage.same();
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
    } else this.#passage.now.fromHost(first);
    this.#release();
  }

  #translate(first: Request, introduction: Result, envelope: Meta): void {
    this.#begun = introduction;
    this.#passage.newer(introduction, envelope).fromHost(first);
  }

  #begin(params: Params): Promise<Result | undefined> {
    return begin(this.#own, this.#toServer, params);
  }

  /** The host prefers the older era after all, which has begun already: from here on, nothing is translated. */
  #fallBack({ id, params = {} }: Request, result: Result): void {
    this.#introduced = params;
    this.#passage.same();
    this.#toHost({ jsonrpc: '2.0', id, result });
  }

  #release(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const pass of held) pass();
  }
}
