import type { ServerResponse } from 'node:http';
import { isObject } from '../../core/json.ts';
import { errorBody } from './route.ts';
import { type EventStream, eventStream, SSE_HEADERS } from './sse.ts';

/** The methods with which an SDK writes a response. */
type Writer = Pick<ServerResponse, 'setHeader' | 'writeHead' | 'flushHeaders' | 'write' | 'end'>;
type Call = (...args: unknown[]) => unknown;

/**
 * A response that an SDK writes, until the edge takes it over.
 *
 * The SDK's writing is intercepted on the response object itself, so that its listeners and methods need no replacement.
 */
export class NodeResponse {
  readonly #response: ServerResponse;
  /** The original methods, once the response is intercepted. */
  #own: Writer | undefined;
  /** What happens to what the SDK writes: it is sent, held back until {@link release}, or dropped. */
  #mode: 'send' | 'hold' | 'drop' = 'send';
  #held: (() => void)[] = [];
  #isRefusal = false;
  #onEnd: (() => void) | undefined;

  constructor(response: ServerResponse) {
    this.#response = response;
  }

  /** Calls `written` with each chunk that the SDK sends. */
  watch(written: (chunk: unknown) => void): void {
    this.#intercept(written);
  }

  /** Holds back what the SDK writes. `ended` is called when the SDK ends the response. */
  hold(ended: () => void): void {
    this.#intercept();
    this.#mode = 'hold';
    this.#onEnd = ended;
  }

  /** Whether what was held back is an error of HTTP. */
  get isRefusal(): boolean {
    return this.#isRefusal;
  }

  /** Sends what was held back. */
  release(): void {
    this.#mode = 'send';
    for (const write of this.#held.splice(0)) write();
  }

  /** Takes over the response. From now on nothing that the SDK writes is sent. */
  takeOver(): void {
    this.#intercept();
    this.#mode = 'drop';
    this.#held = [];
  }

  /** Takes over the response and ends it. */
  reply(status: number, error?: object): void {
    const own = this.#taken();
    if (error) {
      own.writeHead(status, { 'content-type': 'application/json' });
      own.end(errorBody(error));
    } else {
      own.writeHead(status);
      own.end();
    }
  }

  /** Takes over the response for events. */
  events(): EventStream {
    const own = this.#taken();
    const response = this.#response;
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    if (response.destroyed) gone.abort();
    if (!response.headersSent) own.writeHead(200, { ...SSE_HEADERS });
    return eventStream(gone.signal, own.write, own.end);
  }

  /** Offers a session id with the response, unless the SDK has its own or has refused. `foreign` is called if it has. */
  offerSession(id: string, foreign: () => void): void {
    const response = this.#response;
    const { writeHead } = response;
    response.writeHead = ((status: number, ...rest: unknown[]) => {
      response.writeHead = writeHead;
      const headers = rest.at(-1);
      const has = response.hasHeader('mcp-session-id') || (isObject(headers) && 'mcp-session-id' in headers);
      if (has) foreign();
      else if (status === 200) response.setHeader('mcp-session-id', id);
      return (writeHead as Call).call(response, status, ...rest);
    }) as ServerResponse['writeHead'];
  }

  #taken() {
    this.takeOver();
    const response = this.#response;
    const own = this.#own as Writer;
    return {
      writeHead: (status: number, headers?: Record<string, string>): void => {
        // Node's own `writeHead` sets headers one by one if there are some already.
        const { setHeader } = response;
        response.setHeader = own.setHeader;
        try {
          (own.writeHead as Call).call(response, status, ...(headers ? [headers] : []));
        } finally {
          response.setHeader = setHeader;
        }
      },
      write: (text: string): void => void (own.write as Call).call(response, text),
      end: (text?: string): void =>
        void (own.end as Call).call(response, ...(text === undefined ? [] : [text])),
    };
  }

  #intercept(written?: (chunk: unknown) => void): void {
    if (this.#own) return;
    const response = this.#response;
    const { setHeader, writeHead, flushHeaders, write, end } = response;
    this.#own = { setHeader, writeHead, flushHeaders, write, end };
    const instead = (method: unknown, skipped: unknown): Call => {
      return (...args) => {
        if (this.#mode === 'send') return (method as Call).apply(response, args);
        const last = args.at(-1);
        const done = typeof last === 'function' ? (last as () => void) : undefined;
        if (this.#mode === 'hold')
          this.#held.push(() => (method as Call).apply(response, done ? args.slice(0, -1) : args));
        if (done) queueMicrotask(done);
        return skipped;
      };
    };
    const sendHead = instead(writeHead, response);
    const sendChunk = instead(write, true);
    const sendEnd = instead(end, response);
    Object.assign(response, {
      setHeader: instead(setHeader, response),
      writeHead: (...args: unknown[]) => {
        this.#isRefusal = typeof args[0] === 'number' && args[0] >= 400;
        return sendHead(...args);
      },
      flushHeaders: instead(flushHeaders, undefined),
      write: (...args: unknown[]) => {
        if (this.#mode === 'send') written?.(args[0]);
        return sendChunk(...args);
      },
      end: (...args: unknown[]) => {
        const result = sendEnd(...args);
        this.#onEnd?.();
        return result;
      },
    });
  }
}
