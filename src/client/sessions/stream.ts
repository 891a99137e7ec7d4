import { ValiseError } from '../../errors.ts';
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
import { isRefused, isUnknownMethod, sessionErrorIn } from './errors.ts';
import { WantedResources } from './wanted-resources.ts';
import { watchBody } from './watch-body.ts';

/** What a stream listens to. */
export interface StreamOptions {
  /** The connection that is open now. */
  readonly calls: () => SessionCalls;
  /** The session as it is sent now; undefined for what belongs to none. */
  readonly session: (() => SessionMeta) | undefined;
  /** Puts another session in the place of the one of that id, which is gone; false where it is over. */
  readonly renew: (id: string) => Promise<boolean>;
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
/** So often a server may end a stream without a word of welcome; then it is polled. */
const UNWELCOME = 5;
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
  readonly #wantedResources: WantedResources;
  #polls: boolean;
  #hasPolled = false;
  #closed = false;
  /** True once the server has said that it listens, or has answered a poll. */
  #isOpened = false;
  /** True where the present request was welcomed. */
  #isWelcome = false;
  /** True where a new session has taken the place of the old one, and was not welcomed yet. */
  #isRenewed = false;
  /** True where the present request was ended here. */
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

  /** True once the server has let somebody listen. */
  get isOpened(): boolean {
    return this.#isOpened;
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

  /** Listens for these resources too: the stream is opened again, and goes on where it was. Rejects where they are refused. */
  async want(resources: readonly string[]): Promise<void> {
    await this.opened;
    const wish = this.#closed ? undefined : this.#wantedResources.add(resources);
    if (wish) this.reopen();
    await wish;
  }

  /** The request of the stream goes out; its HTTP answer is watched, since the SDKs do not tell when it breaks. */
  sending(call: Call): void {
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

  /** Ends the request under way, and tells the server so; unless closed, the stream asks anew. */
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

  /** True where there is no use in asking again. */
  async #isFinal(error: unknown): Promise<boolean> {
    if (isUnknownMethod(error)) return true;
    if (this.#asked !== undefined && sessionErrorIn(error)?.kind === 'not-found') {
      const isRenewed = !this.#isRenewed && (await this.#options.renew(this.#asked));
      this.#isRenewed = true;
      return !isRenewed;
    }
    if (this.#isOpened && !this.#isDropped) return !this.#wantedResources.refused(error) && isRefused(error);
    // Whoever asks to listen is told why that does not work; only what has worked is worth waiting for.
    return !this.#isOpened && !this.#isDropped;
  }

  #welcome(): void {
    this.#isOpened = true;
    this.#isWelcome = true;
    this.#isRenewed = false;
    this.#resolve();
    if (this.#wantedResources.granted()) this.reopen();
  }

  /** Keeps a stream until the server ends it. */
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

  /** Asks for what has come; false where there was nothing, and the server did not wait for it. */
  async #poll(): Promise<boolean> {
    const { missed, heard } = this.#options;
    // The first one only finds out where things stand: as with a stream, what was before is not heard.
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
    const calls = this.#options.calls();
    const session = this.#options.session?.();
    this.#asked = session?.sessionId;
    this.#isDropped = false;
    const resources = this.#wantedResources.name();
    const params = listenParams(calls.spelling, {
      ...(session && { session }),
      ...(this.#cursor !== undefined && { after: this.#cursor }),
      ...(resources.size > 0 && { resources: [...resources] }),
      ...asked,
    });
    return opening
      .run(this, () => calls.listen(params, timeout))
      .finally(() => {
        this.#call = undefined;
      });
  }

  /** Nothing more will come on this request. */
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
    'not-listening',
    `The server does not tell this client what has happened: it ${why}.`,
    {
      next: 'Look from time to time what has changed.',
    },
  );
}
