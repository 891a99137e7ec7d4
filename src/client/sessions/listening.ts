import { AsyncResource } from 'node:async_hooks';
import { tell } from '../../events.ts';
import type { ListenPosition, Notification } from '../../wire/index.ts';
import type { SessionCalls } from './calls.ts';
import { checkListen } from './given.ts';
import type { HeldSession } from './session.ts';
import { Stream } from './stream.ts';
import type { Listening, ListenOptions, NotificationListener } from './types.ts';

/** One listener of a stream. */
interface Ear {
  readonly heard: NotificationListener;
  readonly missed: () => void;
}

/** A stream and its listeners. */
interface Shared {
  /** The id of the session that the stream is for, or `''` for none. */
  scope: string;
  readonly stream: Stream;
  readonly ears: Set<Ear>;
}

/** The notification streams of one server: one for each session with a listener, and one for no session. */
export class Streams {
  readonly #calls: () => SessionCalls;
  readonly #streams = new Map<string, Shared>();

  constructor(calls: () => SessionCalls) {
    this.#calls = calls;
  }

  async open(
    session: HeldSession | undefined,
    listener: NotificationListener,
    options: ListenOptions = {},
  ): Promise<Listening> {
    checkListen(listener, options);
    const scope = session?.id ?? '';
    // The listener runs in the async context of this call, so its requests belong to the session that was current then, if
    // any.
    const heard = AsyncResource.bind(listener);
    const ear: Ear = { heard, missed: AsyncResource.bind(() => options.onMissed?.()) };
    const known = this.#streams.get(scope);
    const { stream, ears } = known ?? this.#begin(scope, session, options);
    ears.add(ear);
    const leave = (): void => {
      if (ears.delete(ear) && ears.size === 0) stream.close();
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
        if (ears.size === 0) await stream.ended;
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

  #begin(scope: string, session: HeldSession | undefined, { resources, poll, after }: ListenOptions): Shared {
    const ears = new Set<Ear>();
    const stream = new Stream({
      calls: this.#calls,
      session: session && (() => session.sent()),
      renew: async (id) => session?.recreates === true && session.home.renew(session, id),
      resources: resources ?? [],
      polls: poll !== undefined && poll !== false,
      wait: typeof poll === 'object' ? (poll.wait ?? 20) : 20,
      after,
      heard: (notification) => {
        for (const ear of ears) tell(ear.heard, notification);
      },
      missed: () => {
        for (const ear of ears) tell(ear.missed, undefined);
      },
    });
    const shared: Shared = { scope, stream, ears };
    this.#streams.set(scope, shared);
    void stream.ended.then(() => {
      if (this.#streams.get(shared.scope) === shared) this.#streams.delete(shared.scope);
    });
    return shared;
  }
}
