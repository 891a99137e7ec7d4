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

/** Destinations and settings of a bridge. */
export interface BridgeOptions {
  toHost(message: Message): void;
  /** Resolves once the message is delivered, or cannot be delivered. */
  toServer(message: Message): Promise<void>;
  /**
   * When a newer host is translated for an older server. `insisting`: once the host uses the newer era without asking for it
   * first, or after a refusal; a host that can fall back does so, and nothing is translated. `always`: immediately, for
   * hosts that give up when they are refused.
   */
  readonly newer?: 'never' | 'insisting' | 'always' | undefined;
  /** The state that an older server keeps for its host; it is restored at a newer server that replaces the older one. */
  readonly standing?: Pick<Standing, 'wishes' | 'news'> | undefined;
  /** Forgets the round of a call that the host cancelled while it was being asked. */
  readonly takenBack?: TakenBack | undefined;
}

/**
 * Connects a host and a server: passes messages through if both speak the same era, and translates them if the host starts
 * in one era and the server turns out to support only the other.
 */
export class Bridge {
  readonly #toHost: (message: Message) => void;
  readonly #toServer: (message: Message) => Promise<void>;
  readonly #own: ServerRequests;
  readonly #standing: BridgeOptions['standing'];
  readonly #passage: Passage;
  readonly #waiting = new Waiting();
  #initialize: Request | undefined;
  /** The params of an older host's `initialize`. */
  #introduced: Params = {};
  /** The server's result for the bridge's own `initialize`, until the host sends one. */
  #begun: Result | undefined;
  /** Whether the era is known, or does not need to be known. */
  #met: boolean;
  /** Whether a refused `server/discover` is translated instead of being passed to the host. */
  #insists: boolean;
  readonly #isNever: boolean;
  /** Messages that arrive while the bridge waits for the server's answer to its own request. */
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

  /** Handles a message from the server, or a substitute that says why the server could not be reached. */
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

  /** Checks whether a server that refused an older host speaks the newer era. */
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
   * Handles a server that was replaced by one of the other era. A request that it did not accept is sent once more, and only
   * once, in the new era. Answers to questions of the previous server are not resent.
   */
  async #changed(request: Request, { request: sent, by }: Sent<Between>, refusal: Response): Promise<void> {
    // Another call may have noticed the change first, in which case all listeners are resent already.
    const isFirst = by === this.#passage.now;
    if (!isFirst && isListener(request)) return;
    const isModern = eraOf(request) === 'modern';
    // Does not await if it is not necessary: another refusal may already be queued, and must not count as the first.
    const isMet = !isFirst || (isModern ? this.#startOver() : await this.#meetAgain());
    if (goesOn(sent)) this.#end({ jsonrpc: '2.0', id: request.id, error: SERVER_CHANGED });
    else if (!isMet || !this.#waiting.mayGoAgain(request)) this.#end(refusal);
    // Sends a copy: the transport would pass a message object that it has seen before without involving Valise.
    else this.fromHost({ ...request });
    if (isFirst && isMet) this.#listenAgain(request);
  }

  /** Answers the host, unless it has cancelled the request. */
  #end(response: Response): void {
    if (this.#waiting.get(response.id ?? undefined)) this.#toHost(response);
  }

  /** Resends the host's listeners, because the previous server no longer notifies them. */
  #listenAgain(but: Request): void {
    for (const request of this.#waiting.listeners()) if (request.id !== but.id) this.fromHost({ ...request });
  }

  /** Resets the bridge so that the next request of a newer host detects the server's era. */
  #startOver(): boolean {
    if (this.#isNever) return false;
    this.#passage.same();
    this.#begun = undefined;
    this.#met = false;
    return true;
  }

  /** Detects the server's era on behalf of an older host, which does not ask for it. */
  async #meetAgain(): Promise<boolean> {
    const { now } = this.#passage;
    this.#held = [];
    const isMet = now instanceof OlderHost ? await this.#goBack(now) : await this.#takeOver();
    if (isMet) for (const news of this.#standing?.news() ?? []) this.#toHost(news);
    this.#release();
    return isMet;
  }

  /** Translates for a host that started at an older server, now replaced by a newer one. */
  async #takeOver(): Promise<boolean> {
    const { response } = await discover(this.#own);
    if (!('result' in response)) return false;
    this.#passage.older().takeOver(this.#introduced, response.result, this.#standing?.wishes() ?? []);
    return true;
  }

  /** Stops translating, because an older server is back. */
  async #goBack(before: OlderHost): Promise<boolean> {
    if (!(await this.#begin(this.#introduced))) return false;
    for (const { method, params } of before.wishes()) void this.#own.send(method, params);
    this.#passage.same();
    return true;
  }

  /**
   * Handles the first request of a newer host. The bridge detects the server's era before it passes anything on, because an
   * older server would execute some requests that it only half understands.
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

  /** Stops translating because the host falls back to the older era, in which the server is already initialized. */
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
