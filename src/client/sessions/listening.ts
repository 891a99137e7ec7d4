import { AsyncResource } from 'node:async_hooks';
import { tell } from '../../events.ts';
import { checkArgument, checkOptions, FUNCTION, type TakenBy, TEXT } from '../../options.ts';
import type { ListenPosition, Notification } from '../../wire/index.ts';
import type { SessionRequests } from './requests.ts';
import type { OpenSession } from './session.ts';
import { Stream } from './stream.ts';
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
