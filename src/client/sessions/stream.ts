import { Course } from '../../link/course.ts';
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
import type { SessionCalls } from './calls.ts';
import { isUnknownMethod, sessionErrorIn } from './errors.ts';
import { watchBody } from './watch-body.ts';

/** What a stream listens to. */
export interface StreamOptions {
  /** The connection that is open now. */
  readonly calls: () => SessionCalls;
  /** The session as it is sent now; undefined for what belongs to none. */
  readonly session: (() => SessionMeta) | undefined;
  readonly resources: readonly string[];
  readonly polls: boolean;
  /** Seconds that a poll may wait. */
  readonly wait: number;
  readonly after: string | undefined;
  readonly heard: (notification: Notification) => void;
  readonly missed: () => void;
}

/** Longer than any server should hold a stream; then it is opened again. */
const LONGEST = 86_400;
/** A server that holds a stream says so at once; one that cannot is asked again and again instead. */
const WELCOME = 5000;
/** Servers of ours give a sign of life every 15 seconds. */
const SILENCE = 45_000;

const opening = new Course<Stream>();

/** The stream whose request is on its way out. */
export function currentStream(): Stream | undefined {
  return opening.current;
}

/** Hears notifications, and goes on where it was when the stream breaks. */
export class Stream {
  readonly #options: StreamOptions;
  #cursor: string | undefined;
  #resources: ReadonlySet<string>;
  #polls: boolean;
  #hasPolled = false;
  #closed = false;
  #call: Call | undefined;
  #cut: (() => void) | undefined;
  #silence: NodeJS.Timeout | undefined;
  #failed: unknown;
  #welcome: () => void = () => {};
  readonly opened: Promise<void>;
  readonly ended: Promise<void>;

  constructor(options: StreamOptions) {
    this.#options = options;
    this.#cursor = options.after;
    this.#polls = options.polls;
    this.#resources = new Set(options.resources);
    const welcomed = new Promise<void>((resolve) => {
      this.#welcome = resolve;
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

  /** The position after what has been heard. */
  get cursor(): string | undefined {
    return this.#cursor;
  }

  /** Takes a notification of the stream. */
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

  /** Listens for these resources too: the stream is opened again, and goes on where it was. */
  want(resources: readonly string[]): void {
    const { size } = this.#resources;
    this.#resources = new Set([...this.#resources, ...resources]);
    if (this.#resources.size > size) this.#break();
  }

  /** The request of the stream goes out; its HTTP answer is watched, since the SDKs do not tell when it breaks. */
  sending(call: Call): void {
    this.#call = call;
    if (this.#polls) return;
    call.addErrand({
      onResponse: (response) => {
        this.#cut = watchBody(response, () => this.#drop());
      },
    });
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#silence);
    this.#break();
  }

  /** Ends the request under way, and tells the server so. */
  #break(): void {
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
    for (let pause = 100; !this.#closed; pause = Math.min(pause * 2, 5000)) {
      const began = Date.now();
      try {
        await (this.#polls ? this.#poll() : this.#hold());
        if (this.#polls) pause = 50;
      } catch (error) {
        if (this.#closed) return;
        const isGone = this.#options.session !== undefined && sessionErrorIn(error)?.kind === 'not-found';
        if (isGone || isUnknownMethod(error)) {
          this.#failed = error;
          this.#closed = true;
          return;
        }
      }
      clearTimeout(this.#silence);
      if (Date.now() - began > 5000) pause = 50;
      if (!this.#closed && !this.#polls) await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  async #hold(): Promise<void> {
    let heard = false;
    const welcome = this.#welcome;
    this.#welcome = () => {
      heard = true;
      welcome();
    };
    const patience = setTimeout(() => {
      if (heard) return;
      this.#polls = true;
      this.#drop();
    }, WELCOME);
    try {
      await this.#request({}, LONGEST);
    } finally {
      clearTimeout(patience);
    }
  }

  async #poll(): Promise<void> {
    const { missed, heard } = this.#options;
    // The first one only finds out where things stand.
    const wait = this.#hasPolled ? this.#options.wait : 0;
    const poll = readPollResult(await this.#request({ poll: true, wait }, wait + 30));
    this.#hasPolled = true;
    this.#welcome();
    if (isProblem(poll) || this.#closed) return;
    if (poll.missed) missed();
    for (const notification of poll.notifications) heard(notification);
    if (poll.cursor !== undefined) this.#cursor = poll.cursor;
  }

  #request(asked: { readonly poll?: boolean; readonly wait?: number }, timeout: number) {
    const calls = this.#options.calls();
    const params = listenParams(calls.era, {
      ...(this.#options.session && { session: this.#options.session() }),
      ...(this.#cursor !== undefined && { after: this.#cursor }),
      ...(this.#resources.size > 0 && { resources: [...this.#resources] }),
      ...asked,
    });
    return opening.run(this, () => calls.listen(params, timeout));
  }

  /** Nothing more will come on this request. */
  #drop(): void {
    const call = this.#call;
    this.#call = undefined;
    if (call) call.connection.fail(call, -32000, 'The stream of notifications ended.');
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
