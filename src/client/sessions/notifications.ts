import { AsyncResource } from 'node:async_hooks';
import { ValiseError } from '../../core/errors.ts';
import { tell } from '../../core/events.ts';
import { checkArgument, checkOptions, FUNCTION, type TakenBy, TEXT } from '../../core/options.ts';
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
import type { OpenSession } from './session.ts';
import type { Listening, ListenOptions, NotificationListener } from './types.ts';

const LISTEN: TakenBy<ListenOptions> = {
  resources: ['a list of URIs', Array.isArray],
  poll: ['true, false or { wait: seconds }', (value) => ['boolean', 'object'].includes(typeof value)],
  after: TEXT,
  onMissed: FUNCTION,
};

/** One listener of a stream. */
interface Subscriber {
  readonly heard: NotificationListener;
  readonly missed: () => void;
}

/** A stream and its listeners. */
interface Shared {
  /** The id of the session that the stream is for, or `''` for none. */
  scope: string;
  readonly stream: Stream;
  readonly subscribers: Set<Subscriber>;
}

/** The notification streams of one server: one for each session with a listener, and one for no session. */
export class Streams {
  readonly #requests: () => SessionRequests;
  readonly #streams = new Map<string, Shared>();

  constructor(requests: () => SessionRequests) {
    this.#requests = requests;
  }

  async open(
    session: OpenSession | undefined,
    listener: NotificationListener,
    options: ListenOptions = {},
  ): Promise<Listening> {
    checkArgument('listen()', listener, FUNCTION);
    checkOptions('listen', options, LISTEN);
    const scope = session?.id ?? '';
    // The listener runs in the async context of this call, so its requests belong to the session that was current then, if
    // any.
    const heard = AsyncResource.bind(listener);
    const subscriber: Subscriber = { heard, missed: AsyncResource.bind(() => options.onMissed?.()) };
    const known = this.#streams.get(scope);
    const { stream, subscribers } = known ?? this.#begin(scope, session, options);
    subscribers.add(subscriber);
    const leave = (): void => {
      if (subscribers.delete(subscriber) && subscribers.size === 0) stream.close();
    };
    try {
      await (known ? stream.want(options.resources ?? []) : stream.opened);
    } catch (error) {
      leave();
      // The server rejected the first listener's request, or that listener left. This does not affect the new listener.
      if (known && !stream.isOpened) return this.open(session, listener, options);
      throw error;
    }
    return {
      get cursor() {
        return stream.cursor;
      },
      closed: stream.ended,
      async close() {
        leave();
        if (subscribers.size === 0) await stream.ended;
      },
    };
  }

  /** Delivers a notification to its listeners. */
  hear(notification: Notification, position: ListenPosition): void {
    this.#streams.get(position.sessionId ?? '')?.stream.hear(notification, position);
  }

  /** Moves the listeners of a session to the one that replaces it. */
  follow(from: string, to: string): void {
    const shared = this.#streams.get(from);
    if (!shared) return;
    this.#streams.delete(from);
    this.#streams.set(to, shared);
    shared.scope = to;
    shared.stream.reopen();
  }

  /** Closes the stream of a session that is gone. */
  end(scope: string): void {
    this.#streams.get(scope)?.stream.close();
  }

  close(): void {
    for (const { stream } of this.#streams.values()) stream.close();
  }

  #begin(scope: string, session: OpenSession | undefined, { resources, poll, after }: ListenOptions): Shared {
    const subscribers = new Set<Subscriber>();
    const stream = new Stream({
      requests: this.#requests,
      session: session && (() => session.sent()),
      renew: async (id) => session?.recreates === true && session.sessions.renew(session, id),
      resources: resources ?? [],
      polls: poll !== undefined && poll !== false,
      wait: typeof poll === 'object' ? (poll.wait ?? 20) : 20,
      after,
      heard: (notification) => {
        for (const subscriber of subscribers) tell(subscriber.heard, notification);
      },
      missed: () => {
        for (const subscriber of subscribers) tell(subscriber.missed, undefined);
      },
    });
    const shared: Shared = { scope, stream, subscribers };
    this.#streams.set(scope, shared);
    void stream.ended.then(() => {
      if (this.#streams.get(shared.scope) === shared) this.#streams.delete(shared.scope);
    });
    return shared;
  }
}

/** Options for {@link Stream}. */
export interface StreamOptions {
  /** Returns the session requests of the connection that is open now. */
  readonly requests: () => SessionRequests;
  /** Returns the session metadata to send now; undefined if the notifications belong to no session. */
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

/** The maximum duration of one stream request, in seconds. It is longer than any server should leave a stream open. */
const LONGEST = 86_400;
/** How long to wait for a server to confirm a stream, in milliseconds. A server that does not confirm it is polled instead. */
const WELCOME = 5000;
/** How often a server may end a stream without confirming it before it is polled. */
const UNWELCOME = 5;
/** How long a stream may be silent, in milliseconds. Our servers send a sign of life every 15 seconds. */
const SILENCE = 45_000;

/** Resources that a listener wants in addition. */
interface Addition {
  readonly resources: readonly string[];
  resolve(): void;
  reject(error: unknown): void;
}

/** Receives notifications, and continues from its position if the stream breaks. */
class Stream {
  readonly #options: StreamOptions;
  #cursor: string | undefined;
  /** The resources that the server has accepted. */
  readonly #resources: Set<string>;
  /** The resources that a listener wants in addition, and those that the current request names. */
  #addition: Addition | undefined;
  #named: Addition | undefined;
  #adding: Promise<void> = Promise.resolve();
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
    this.#resources = new Set(options.resources);
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
  want(resources: readonly string[]): Promise<void> {
    const added = this.#adding.then(() => this.#add(resources));
    this.#adding = added.catch(() => undefined);
    return added;
  }

  async #add(resources: readonly string[]): Promise<void> {
    await this.opened;
    if (this.#closed || resources.every((uri) => this.#resources.has(uri))) return;
    await new Promise<void>((resolve, reject) => {
      this.#addition = { resources, resolve, reject };
      this.reopen();
    });
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
    call.connection
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
        goesOn = await (this.#polls ? this.#poll() : this.#stream());
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
    this.#addition?.reject(this.#failed ?? notListening('The server ended the stream of notifications.'));
  }

  /** Whether retrying is pointless. */
  async #isFinal(error: unknown): Promise<boolean> {
    if (isUnknownMethod(error)) return true;
    if (this.#asked !== undefined && sessionErrorIn(error)?.kind === 'not-found') {
      const isRenewed = !this.#isRenewed && (await this.#options.renew(this.#asked));
      this.#isRenewed = true;
      return !isRenewed;
    }
    if (this.#isDropped) return false;
    // A listener that never worked fails with the reason. Only one that has worked is retried.
    if (!this.#isOpened) return true;
    if (!this.#named) return isRefused(error);
    this.#addition = undefined;
    this.#named.reject(error);
    return false;
  }

  #welcome(): void {
    this.#isOpened = true;
    this.#isWelcome = true;
    this.#isRenewed = false;
    this.#resolve();
    if (!this.#named) return;
    for (const uri of this.#named.resources) this.#resources.add(uri);
    this.#addition = undefined;
    this.#named.resolve();
    this.#named = undefined;
  }

  /** Reads a stream until the server ends it. */
  async #stream(): Promise<boolean> {
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
    if (isProblem(poll))
      throw notListening(
        'The server ends every stream of notifications at once and returns none when polled.',
      );
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
    this.#named = this.#addition;
    const resources = [...new Set([...this.#resources, ...(this.#named?.resources ?? [])])];
    const params = listenParams(requests.spelling, {
      ...(session && { session }),
      ...(this.#cursor !== undefined && { after: this.#cursor }),
      ...(resources.length > 0 && { resources }),
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

function notListening(what: string): ValiseError {
  return new ValiseError('not-connected', what, { next: 'Check from time to time what has changed.' });
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
