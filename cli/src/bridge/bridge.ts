import { ValiseError } from 'mcp-valise/client';
import {
  eraOf,
  INPUT_METHODS,
  isNotification,
  isRequest,
  type Message,
  type Notification,
  type Params,
  type Request,
  type Response,
  type Result,
  VERSION_GONE,
} from 'mcp-valise/internal';
import { NewerHost } from './newer-host.ts';
import { OlderHost } from './older-host.ts';
import { HostQuestions } from './questions.ts';
import { SameEra } from './same-era.ts';
import { HostSettings } from './settings.ts';
import {
  ACKNOWLEDGED,
  DISCOVER,
  initializeParams,
  isContinuation,
  isListener,
  isRefusal,
  SERVER_CHANGED,
  SUBSCRIPTION_ID,
  senderOf,
} from './shapes.ts';
import type { Answer, Outcome, Server, Sides, TakenBack, Translation } from './translation.ts';

/** Options of {@link Bridge}. */
export interface BridgeOptions {
  toHost(message: Message): void;
  readonly server: Server;
  /**
   * When a newer host is translated for an older server. `insisting`: once the host uses the newer era without asking for it
   * first, or after a refusal; a host that can fall back does so, and nothing is translated. `always`: immediately, for
   * hosts that give up when they are refused.
   */
  readonly newer?: 'never' | 'insisting' | 'always' | undefined;
  /** Forgets the pending question of a call that the host cancelled while it was being asked. */
  readonly takenBack?: TakenBack | undefined;
}

/** A request for which the host waits. */
interface Waiting {
  readonly request: Request;
  /** Whether it was sent again to a replaced server, which has not accepted it yet. */
  isResent: boolean;
}

/**
 * Connects a host and a server. It passes messages through if both speak the same era, and translates them if the host
 * starts in one era and the server turns out to support only the other, also if that changes later.
 */
export class Bridge implements Sides {
  readonly settings = new HostSettings();
  readonly questions: HostQuestions;
  readonly takenBack: TakenBack;
  readonly lost = new Map<unknown, { continue(request: Request): void }>();
  readonly #toHost: (message: Message) => void;
  readonly #server: Server;
  readonly #waiting = new Map<unknown, Waiting>();
  #translation: Translation = new SameEra(this);
  /** The params of an older host's `initialize`. */
  #initialize: Params = {};
  /** The server's result for the bridge's own `initialize`, until the host has sent one. */
  #begun: Result | undefined;
  /** Whether the server's era is known, or does not need to be known. */
  #isMet: boolean;
  /** Whether a refused `server/discover` is translated instead of being passed to the host. */
  #insists: boolean;
  readonly #isNever: boolean;
  /** What has arrived while the bridge waits for the server's answer to its own request. */
  #held: (() => void)[] | undefined;
  #count = 0;

  constructor({ toHost, server, newer = 'insisting', takenBack = () => {} }: BridgeOptions) {
    this.#toHost = toHost;
    this.#server = server;
    this.takenBack = takenBack;
    this.questions = new HostQuestions(
      (message) => this.toHost(message),
      (message) => this.toServer(message as Response),
    );
    this.#isNever = newer === 'never';
    this.#isMet = this.#isNever;
    this.#insists = newer === 'always';
  }

  /** Handles a message of the host. */
  fromHost(message: Message): void {
    this.#whenFree(() => {
      if (isRequest(message)) {
        this.#waiting.set(message.id, { request: message, isResent: false });
        this.#route(message);
      } else if (isNotification(message)) this.#notification(message);
      else if (!this.questions.answered(message)) this.toServer(message);
    });
  }

  /** Handles a message of the server that is not the response to a request of the bridge. */
  fromServer(message: Message): void {
    this.#whenFree(() => {
      if ('method' in message) this.#translation.fromServer(message);
      else this.toHost(message);
    });
  }

  /** Restores the host's settings in a session that replaces one that the server has lost. */
  renewed(): void {
    for (const { method, params } of this.settings.requests()) void this.ask(method, params);
    for (const message of this.settings.notifications()) this.fromServer(message);
  }

  toHost(message: Message): void {
    if (!('method' in message)) this.#waiting.delete(message.id);
    else if (message.method === ACKNOWLEDGED) {
      const listener = this.#waiting.get(message.params?._meta?.[SUBSCRIPTION_ID]);
      if (listener) listener.isResent = false;
    }
    this.#toHost(message);
  }

  answer({ id }: Request, body: Answer): void {
    if (this.#waiting.has(id)) this.toHost({ ...body, jsonrpc: '2.0', id });
  }

  toServer(message: Notification | Response): void {
    void this.#server.notify(message);
  }

  request(by: Translation, of: Request, sent: Request, done: (response: Response) => void): void {
    this.#server.request(sent, (response, failure) => {
      if (failure instanceof ValiseError && failure.code === VERSION_GONE)
        this.#whenFree(() => void this.#changed(by, of, sent, response));
      else {
        if ('result' in response) this.settings.accepted(sent, response.result);
        done(response);
      }
    });
  }

  ask(method: string, params: Params): Promise<Outcome> {
    const request: Request = { jsonrpc: '2.0', id: this.newId('bridge'), method, params };
    return new Promise((resolve) =>
      this.#server.request(request, (response, failure) => {
        if ('result' in response) this.settings.accepted(request, response.result);
        resolve({ response, failure });
      }),
    );
  }

  newId(kind: string): string {
    return `valise-${kind}:${++this.#count}`;
  }

  calls(): Request[] {
    return [...this.#waiting.values()]
      .map(({ request }) => request)
      .filter(({ method }) => INPUT_METHODS.includes(method));
  }

  #notification(message: Notification): void {
    const isInitialized = message.method === 'notifications/initialized';
    // The bridge has sent it already.
    if (isInitialized && this.#begun && this.#translation instanceof SameEra) this.#begun = undefined;
    else this.#translation.notification(message);
    if (message.method === 'notifications/cancelled') this.#waiting.delete(message.params?.['requestId']);
  }

  #route(request: Request): void {
    const { requestState } = request.params ?? {};
    const lost = this.lost.get(requestState);
    if (this.lost.delete(requestState)) lost?.continue(request);
    else if (request.method === 'initialize') this.#initialized(request);
    else if (this.#translation instanceof SameEra && eraOf(request) === 'modern' && !this.#isMet)
      void this.#meet(request);
    else this.#translation.request(request);
  }

  #initialized(request: Request): void {
    this.#initialize = request.params ?? {};
    if (this.#begun) {
      // The host falls back to the older era, in which the bridge has initialized the server already.
      this.#become(new SameEra(this));
      this.answer(request, { result: this.#begun });
    } else if (!(this.#translation instanceof SameEra)) this.#translation.request(request);
    else
      this.request(this.#translation, request, request, (response) => {
        this.#isMet = true;
        if ('error' in response) void this.#refused(request, response);
        else this.toHost(response);
      });
  }

  /** Checks whether a server that refused an older host speaks the newer era. */
  #refused(initialize: Request, refusal: Response): Promise<void> {
    return this.#holding(async () => {
      const { response } = await this.ask('server/discover', DISCOVER);
      if ('result' in response) this.#become(new OlderHost(this, this.#initialize)).request(initialize);
      else this.toHost(refusal);
    });
  }

  /**
   * Handles the first request of a newer host. The bridge detects the server's era before it passes anything on, because an
   * older server would execute some requests that it only half understands.
   */
  #meet(first: Request): Promise<void> {
    return this.#holding(async () => {
      this.#isMet = true;
      const envelope = first.params?._meta ?? {};
      const isDiscover = first.method === 'server/discover';
      const params = isDiscover && first.params ? first.params : { _meta: senderOf(envelope) };
      const { response, failure } = await this.ask('server/discover', params);
      // An unreachable server proves nothing.
      const isRefused = failure === undefined && 'error' in response && isRefusal(response.error);
      const begun =
        isRefused && (this.#insists || !isDiscover)
          ? await this.#begin(initializeParams(envelope))
          : undefined;
      if (begun) {
        this.#begun = begun;
        this.#become(new NewerHost(this, begun, envelope)).request(first);
      } else if (isDiscover) {
        this.#isMet = 'result' in response;
        this.#insists ||= isRefused;
        this.answer(first, response);
      } else this.#translation.request(first);
    });
  }

  /** Initializes an older server on behalf of the host. */
  async #begin(params: Params): Promise<Result | undefined> {
    const { response } = await this.ask('initialize', params);
    if (!('result' in response)) return undefined;
    await this.#server.notify({ jsonrpc: '2.0', method: 'notifications/initialized' });
    return response.result;
  }

  /**
   * Handles a server that was replaced by one of the other era. A request that it did not accept is sent once more, and only
   * once, in the new era. Answers to questions of the previous server are not sent again.
   */
  async #changed(by: Translation, request: Request, sent: Request, refusal: Response): Promise<void> {
    if (!this.#waiting.has(request.id)) return;
    // Another call may have noticed the change first, in which case all listeners are sent again already.
    const isFirst = by === this.#translation;
    if (!isFirst && isListener(request)) return;
    const isModern = eraOf(request) === 'modern';
    // Does not await if it is not necessary: another refusal may already be queued, and must not count as the first.
    const isMet = !isFirst || (isModern ? this.#startOver() : await this.#meetAgain());
    const waiting = this.#waiting.get(request.id);
    if (isContinuation(sent)) this.answer(request, { error: SERVER_CHANGED });
    else if (!isMet || waiting?.isResent) this.answer(request, refusal);
    else if (waiting) {
      waiting.isResent = true;
      this.#resend(request);
    }
    if (!isFirst || !isMet) return;
    // The previous server no longer notifies the host's listeners.
    for (const { request: other } of [...this.#waiting.values()])
      if (isListener(other) && other.id !== request.id) this.#resend(other);
  }

  /** Sends a copy: the transport passes a message object that it has seen before without involving Valise. */
  #resend(request: Request): void {
    this.#whenFree(() => this.#waiting.has(request.id) && this.#route({ ...request }));
  }

  /** Lets the next request of a newer host detect the server's era again. */
  #startOver(): boolean {
    if (this.#isNever) return false;
    this.#become(new SameEra(this));
    this.#begun = undefined;
    this.#isMet = false;
    return true;
  }

  /** Detects the server's era on behalf of an older host, which does not ask for it. */
  async #meetAgain(): Promise<boolean> {
    let isMet = false;
    await this.#holding(async () => {
      isMet = this.#translation instanceof OlderHost ? await this.#goBack() : await this.#takeOver();
      if (isMet) for (const message of this.settings.notifications()) this.toHost(message);
    });
    return isMet;
  }

  /** Translates for a host that started at an older server, which a newer one has replaced. */
  async #takeOver(): Promise<boolean> {
    const { response } = await this.ask('server/discover', DISCOVER);
    if (!('result' in response)) return false;
    this.#become(new OlderHost(this, this.#initialize)).takeOver(response.result);
    return true;
  }

  /** Stops translating, because an older server is back. */
  async #goBack(): Promise<boolean> {
    const restore = this.settings.requests();
    if (!(await this.#begin(this.#initialize))) return false;
    for (const { method, params } of restore) void this.ask(method, params);
    this.#become(new SameEra(this));
    return true;
  }

  /** Replaces the translation and withdraws its questions. */
  #become<T extends Translation>(next: T): T {
    const before = this.#translation;
    this.#translation = next;
    this.questions.withdraw();
    before.leave();
    return next;
  }

  /** Runs `work`, and meanwhile holds what arrives. */
  async #holding(work: () => Promise<void>): Promise<void> {
    this.#held = [];
    await work();
    const held = this.#held;
    this.#held = undefined;
    for (const handle of held) this.#whenFree(handle);
  }

  #whenFree(handle: () => unknown): void {
    if (this.#held) this.#held.push(() => void handle());
    else handle();
  }
}
