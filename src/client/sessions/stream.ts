import { ValiseError } from '../../errors.ts';
import {
  isListening,
  isProblem,
  type ListenPosition,
  listenParams,
  type Notification,
  readPollResult,
  type SessionMeta,
} from '../../wire/index.ts';
import type { Call } from '../call.ts';
import { isRefused, isUnknownMethod, sessionErrorIn } from './errors.ts';
import type { SessionRequests } from './requests.ts';

/** Options for {@link Stream}. */
export interface StreamOptions {
  /** Returns the session requests of the connection that is open now. */
  readonly requests: () => SessionRequests;
  /** Returns the session metadata to send now. Undefined for notifications that belong to no session. */
  readonly session: (() => SessionMeta) | undefined;
  /** Replaces the session with that id, which is gone, with a new one. Resolves to false if the session is over. */
  readonly renew: (id: string) => Promise<boolean>;
  readonly resources: readonly string[];
  readonly polls: boolean;
  /** The maximum time a poll may wait, in seconds. */
  readonly wait: number;
  readonly after: string | undefined;
  readonly heard: (notification: Notification) => void;
  readonly missed: () => void;
}

/** The maximum duration of one stream request, in seconds. It is longer than any server should hold a stream. */
const LONGEST = 86_400;
/** How long to wait for a server to confirm a stream, in milliseconds. A server that does not confirm it is polled instead. */
const WELCOME = 5000;
/** How often a server may end a stream without confirming it before it is polled. */
const UNWELCOME = 5;
/** How long a stream may be silent, in milliseconds. Our servers send a sign of life every 15 seconds. */
const SILENCE = 45_000;

/** Receives notifications, and continues from its position if the stream breaks. */
export class Stream {
  readonly #options: StreamOptions;
  #cursor: string | undefined;
  readonly #wantedResources: WantedResources;
  #polls: boolean;
  #hasPolled = false;
  #closed = false;
  /** Whether the server has confirmed a stream or answered a poll. */
  #isOpened = false;
  /** Whether the server has confirmed the current request. */
  #isWelcome = false;
  /** Whether a new session has replaced the old one and is not confirmed yet. */
  #isRenewed = false;
  /** Whether the current request was ended here. */
  #isDropped = false;
  #asked: string | undefined;
  #call: Call | undefined;
  #cut: (() => void) | undefined;
  #silence: NodeJS.Timeout | undefined;
  #failed: unknown;
  #resolve: () => void = () => {};
  readonly opened: Promise<void>;
  readonly ended: Promise<void>;

  constructor(options: StreamOptions) {
    this.#options = options;
    this.#cursor = options.after;
    this.#polls = options.polls;
    this.#wantedResources = new WantedResources(options.resources);
    const welcomed = new Promise<void>((resolve) => {
      this.#resolve = resolve;
    });
    this.ended = this.#run();
    this.opened = Promise.race([
      welcomed,
      this.ended.then(() => {
        if (this.#failed !== undefined) throw this.#failed;
      }),
    ]);
    this.opened.catch(() => undefined);
  }

  /** Whether the server has confirmed a stream or answered a poll. */
  get isOpened(): boolean {
    return this.#isOpened;
  }

  /** The position after the last notification received. */
  get cursor(): string | undefined {
    return this.#cursor;
  }

  /** Handles a notification of the stream. */
  hear(notification: Notification, { cursor, missed }: ListenPosition): void {
    if (this.#closed) return;
    if (cursor !== undefined) {
      this.#cursor = cursor;
      this.#watchSilence();
    }
    if (missed) this.#options.missed();
    if (isListening(notification)) this.#welcome();
    else this.#options.heard(notification);
  }

  /** Also listens for these resources. Reopens the stream from its position. Rejects if the server rejects the resources. */
  async want(resources: readonly string[]): Promise<void> {
    await this.opened;
    const added = this.#closed ? undefined : this.#wantedResources.add(resources);
    if (added) this.reopen();
    await added;
  }

  /** Watches the HTTP response to the stream's request, because the SDKs do not report when it breaks. */
  #watch(call: Call): void {
    this.#call = call;
    if (this.#polls) return;
    call.addHints({
      onResponse: (response) => {
        this.#cut = watchBody(response, () => this.#drop(call));
      },
    });
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#silence);
    this.reopen();
  }

  /** Ends the request in progress and tells the server. The stream then sends a new request, unless it is closed. */
  reopen(): void {
    const call = this.#call;
    if (!call) return;
    const params = { requestId: call.wireId };
    call.connection.link
      .send({ jsonrpc: '2.0', method: 'notifications/cancelled', params })
      .catch(() => undefined);
    this.#drop();
    this.#cut?.();
  }

  async #run(): Promise<void> {
    let tries = 0;
    for (let pause = 100; !this.#closed; pause = Math.min(pause * 2, 5000)) {
      const began = Date.now();
      let goesOn = false;
      try {
        goesOn = await (this.#polls ? this.#poll() : this.#hold());
      } catch (error) {
        if (!this.#closed && (await this.#isFinal(error))) {
          this.#failed = error;
          this.#closed = true;
        }
      }
      clearTimeout(this.#silence);
      if (!this.#isOpened && ++tries === UNWELCOME) this.#polls = true;
      if (goesOn || Date.now() - began > 5000) pause = 50;
      if (!this.#closed && !goesOn) await new Promise((resolve) => setTimeout(resolve, pause));
    }
    this.#wantedResources.end(this.#failed ?? notListening('ended the stream'));
  }

  /** Whether retrying is pointless. */
  async #isFinal(error: unknown): Promise<boolean> {
    if (isUnknownMethod(error)) return true;
    if (this.#asked !== undefined && sessionErrorIn(error)?.kind === 'not-found') {
      const isRenewed = !this.#isRenewed && (await this.#options.renew(this.#asked));
      this.#isRenewed = true;
      return !isRenewed;
    }
    if (this.#isOpened && !this.#isDropped) return !this.#wantedResources.refused(error) && isRefused(error);
    // A listener that never worked fails with the reason. Only one that has worked is retried.
    return !this.#isOpened && !this.#isDropped;
  }

  #welcome(): void {
    this.#isOpened = true;
    this.#isWelcome = true;
    this.#isRenewed = false;
    this.#resolve();
    if (this.#wantedResources.granted()) this.reopen();
  }

  /** Holds a stream until the server ends it. */
  async #hold(): Promise<boolean> {
    this.#isWelcome = false;
    const patience = setTimeout(() => {
      if (this.#isWelcome) return;
      this.#polls = true;
      this.#drop();
    }, WELCOME);
    try {
      await this.#request({}, LONGEST);
      return false;
    } finally {
      clearTimeout(patience);
    }
  }

  /** Polls for new notifications. Resolves to false if there were none and the server did not wait for them. */
  async #poll(): Promise<boolean> {
    const { missed, heard } = this.#options;
    // The first poll only finds the current position. As with a stream, earlier notifications are not delivered.
    const isFirst = !this.#hasPolled;
    const isStart = isFirst && this.#cursor === undefined;
    const wait = isFirst ? 0 : this.#options.wait;
    const began = Date.now();
    const poll = readPollResult(await this.#request({ poll: true, wait }, wait + 30));
    if (isProblem(poll)) throw notListening('ends each stream without a word, and brings nothing when asked');
    this.#hasPolled = true;
    if (!this.#closed) {
      if (poll.cursor !== undefined) this.#cursor = poll.cursor;
      if (poll.missed && !isStart) missed();
      if (!isStart) for (const notification of poll.notifications) heard(notification);
    }
    this.#welcome();
    const hasWaited = wait > 0 && Date.now() - began > wait * 900;
    return isFirst || hasWaited || poll.missed === true || poll.notifications.length > 0;
  }

  #request(asked: { readonly poll?: boolean; readonly wait?: number }, timeout: number) {
    const requests = this.#options.requests();
    const session = this.#options.session?.();
    this.#asked = session?.sessionId;
    this.#isDropped = false;
    const resources = this.#wantedResources.name();
    const params = listenParams(requests.spelling, {
      ...(session && { session }),
      ...(this.#cursor !== undefined && { after: this.#cursor }),
      ...(resources.size > 0 && { resources: [...resources] }),
      ...asked,
    });
    return requests.listen(params, { timeout, prepare: (call) => this.#watch(call) }).finally(() => {
      this.#call = undefined;
    });
  }

  /** Ends the current request, because nothing more will arrive on it. */
  #drop(call = this.#call): void {
    if (!call || call !== this.#call) return;
    this.#call = undefined;
    this.#isDropped = true;
    call.connection.fail(call, -32000, 'The stream of notifications ended.');
  }

  #watchSilence(): void {
    clearTimeout(this.#silence);
    if (this.#polls) return;
    this.#silence = setTimeout(() => {
      this.#cut?.();
      this.#drop();
    }, SILENCE).unref();
  }
}

function notListening(why: string): ValiseError {
  return new ValiseError(
    'not-connected',
    `The server does not tell this client what has happened: it ${why}.`,
    {
      next: 'Look from time to time what has changed.',
    },
  );
}

/**
 * Calls `ended` when an event stream ends or breaks. Returns a function that breaks the stream. The reader of the response
 * still reads the events as before. A response that is not an event stream is left unchanged.
 */
function watchBody(response: Response, ended: () => void): () => void {
  const { body } = response;
  if (!body || !response.headers.get('content-type')?.startsWith('text/event-stream')) return () => {};
  const reader = body.getReader();
  const watched = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) {
          controller.close();
          ended();
        } else controller.enqueue(value as Uint8Array<ArrayBuffer>);
      } catch (error) {
        controller.error(error);
        ended();
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
  Object.defineProperty(response, 'body', { configurable: true, get: () => watched });
  return () => void reader.cancel().catch(() => undefined);
}

/** Resources that a listener wants in addition. */
interface Addition {
  readonly resources: readonly string[];
  resolve(): void;
  reject(error: unknown): void;
}

/** The resources that a stream listens for: those the server has accepted, and those that are newly requested. */
class WantedResources {
  #granted: ReadonlySet<string>;
  /** The resources that the current request names, including new ones. */
  #named: ReadonlySet<string>;
  #asked: readonly Addition[] = [];
  #open: Addition[] = [];
  /** Whether the server has rejected several requests at once. Each is then sent on its own. */
  #singly = false;

  constructor(resources: readonly string[]) {
    this.#granted = new Set(resources);
    this.#named = this.#granted;
  }

  /** Requests more resources. Returns undefined if the server has already accepted all of them. */
  add(resources: readonly string[]): Promise<void> | undefined {
    if (resources.every((uri) => this.#granted.has(uri))) return undefined;
    return new Promise((resolve, reject) => this.#open.push({ resources, resolve, reject }));
  }

  /** Returns the resources for the next request to name. */
  name(): ReadonlySet<string> {
    this.#asked = this.#singly ? this.#open.slice(0, 1) : [...this.#open];
    if (this.#asked.length === 0) this.#named = this.#granted;
    else this.#named = new Set([...this.#granted, ...this.#asked.flatMap(({ resources }) => resources)]);
    return this.#named;
  }

  /** Marks the named resources as accepted. Returns true if there are more to request. */
  granted(): boolean {
    this.#granted = this.#named;
    for (const addition of this.#asked) addition.resolve();
    return this.#without(this.#asked);
  }

  /**
   * Handles the rejection of the named resources. Returns false if none were new, so that the server rejects the stream itself.
   */
  refused(error: unknown): boolean {
    if (this.#asked.length === 0) return false;
    if (this.#asked.length > 1) this.#singly = true;
    else {
      this.#asked[0]?.reject(error);
      this.#without(this.#asked);
    }
    return true;
  }

  /** Rejects all requests that are still open. */
  end(error: unknown): void {
    for (const { reject } of this.#open.splice(0)) reject(error);
  }

  #without(over: readonly Addition[]): boolean {
    this.#open = this.#open.filter((addition) => !over.includes(addition));
    this.#asked = [];
    if (this.#open.length === 0) this.#singly = false;
    return this.#open.length > 0;
  }
}
