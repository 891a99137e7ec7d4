import { type AnswerWatch, type FetchLike, requestIn } from '../../link/edge-fetch.ts';
import { type Id, INTRODUCTIONS } from '../../wire/index.ts';
import type { Connection } from '../connection.ts';
import type { ClientPart } from '../part.ts';

/** How often the SDKs' transports try to take a stream up again, where nobody tells them otherwise. */
const TRIES = 2;
/** Some servers answer on the standalone stream; where one is open, they are given this long, in milliseconds. */
const GRACE = 10_000;

/** What ends a call whose answer cannot come any more. */
export const CUT = {
  code: -32_000,
  message:
    'The connection broke off before the call was answered. The server may have carried it out: look before calling again.',
} as const;

/** What ends a call that its server took as if it needed no answer. */
const ACCEPTED = {
  code: CUT.code,
  message:
    'The server took this without answering it (202), and no answer can come. It may have carried it out: look before calling again.',
} as const;

/** A call whose stream is taken up again. */
interface Resumed {
  readonly id: Id;
  failures: number;
}

/**
 * Ends the calls whose answer cannot come any more: what was to bring it is over, and there is no way to take it up again.
 * The SDKs wait for it until their timeout, and there may be none.
 */
export class CutAnswers implements ClientPart {
  #connection: Connection | undefined;
  /** The calls whose stream the SDK takes up again, by the event behind which it does. */
  readonly #resumed = new Map<string, Resumed>();

  /** How many standalone streams are open. */
  #standing = 0;

  opening(connection: Connection): void {
    this.#connection = connection;
  }

  /** Follows what answers a request. */
  watch(init: RequestInit): AnswerWatch | undefined {
    const from = resumedFrom(init);
    const resumed = from === undefined ? undefined : this.#resumed.get(from);
    if (init.method !== 'POST' && !resumed) return undefined;
    let lastEventId: string | undefined;
    return {
      read(id) {
        lastEventId = id;
      },
      ended: () => {
        if (from !== undefined) this.#resumed.delete(from);
        // What the stream brought reaches the SDK in this turn.
        setImmediate(() =>
          this.#ended(resumed ? () => resumed.id : () => requestIn(init), lastEventId, init),
        );
      },
    };
  }

  /** Follows a standalone stream, which others read. */
  watchStandalone(other: AnswerWatch | undefined): AnswerWatch | undefined {
    if (!other) return undefined;
    this.#standing += 1;
    return {
      read: (id) => other.read(id),
      skipped: () => other.skipped?.(),
      ended: () => {
        this.#standing -= 1;
      },
    };
  }

  /** Around all requests: those that get no answer, also since their connection breaks, and those that take streams up again. */
  fetch(base: FetchLike): FetchLike {
    return (url, init = {}) => {
      if (init.method === 'POST')
        return base(url, init).then(
          (response) => (response.status === 202 ? this.#accepted(response, init) : response),
          (error: unknown) => this.#unanswered(error, init),
        );
      const from = resumedFrom(init);
      const resumed = from === undefined ? undefined : this.#resumed.get(from);
      return from !== undefined && resumed ? this.#resume(base(url, init), from, resumed) : base(url, init);
    };
  }

  /** By 202 a server says that it took what needs no answer. For a call none can come then, unless on another stream. */
  #accepted(response: Response, init: RequestInit): Response {
    setImmediate(() => this.#ended(() => requestIn(init), undefined, init, ACCEPTED));
    return response;
  }

  /** A call that had been sent when the connection broke has ended as one whose answer breaks off. */
  #unanswered(error: unknown, init: RequestInit): Response {
    const connection = this.#connection;
    const id = brokeOff(error) ? requestIn(init) : undefined;
    const call = id === undefined ? undefined : connection?.calls.get(id);
    if (!connection || !call || call.isGivenUp || INTRODUCTIONS.has(call.method)) throw error;
    setImmediate(() => void connection.arrive({ jsonrpc: '2.0', id: call.wireId, error: CUT }));
    // As for what needs no answer: the call has its own.
    return new Response(null, { status: 202 });
  }

  async #resume(answer: Promise<Response>, from: string, resumed: Resumed): Promise<Response> {
    const failed = (tries = TRIES): void => {
      resumed.failures += 1;
      if (resumed.failures < tries) return;
      this.#resumed.delete(from);
      this.#ended(() => resumed.id, undefined);
    };
    try {
      const response = await answer;
      // By 405 a server says that it has no such streams, which the SDKs take for an answer.
      if (!response.ok) failed(response.status === 405 ? 1 : TRIES);
      else if (!isStream(response)) failed(1);
      return response;
    } catch (error) {
      failed();
      throw error;
    }
  }

  closed(): void {
    this.#connection = undefined;
    this.#resumed.clear();
  }

  #ended(
    idOf: () => Id | undefined,
    lastEventId: string | undefined,
    { signal }: RequestInit = {},
    error: typeof CUT | typeof ACCEPTED = CUT,
    grace = this.#standing > 0 ? GRACE : 0,
  ): void {
    const connection = this.#connection;
    // As a rule all is answered, and the body need not be read for whose stream it was.
    if (!connection || connection.calls.size === 0) return;
    const id = idOf();
    const call = id === undefined ? undefined : connection.calls.get(id);
    // Such streams end with their answer or without one, and the SDK knows.
    if (!call || call.cancelled || call.movedOn || call.method === 'subscriptions/listen') return;
    // Given up by hanging up, as 2026-07-28 has it.
    if (signal?.aborted) call.leave();
    else if (lastEventId !== undefined) this.#resumed.set(lastEventId, { id: call.wireId, failures: 0 });
    else if (grace > 0)
      setTimeout(() => this.#ended(() => call.wireId, undefined, {}, error, 0), grace).unref();
    else void connection.arrive({ jsonrpc: '2.0', id: call.wireId, error });
  }
}

/** True where a connection was there, and is not any more. */
function brokeOff(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause as { readonly code?: unknown } | undefined) : undefined;
  return cause?.code === 'ECONNRESET' || cause?.code === 'UND_ERR_SOCKET' || cause?.code === 'EPIPE';
}

function isStream({ headers }: Response): boolean {
  return headers.get('content-type')?.startsWith('text/event-stream') === true;
}

function resumedFrom({ method, headers }: RequestInit): string | undefined {
  if (method !== 'GET') return undefined;
  return new Headers(headers).get('last-event-id') ?? undefined;
}
