import { messageOf } from '../../core/errors.ts';
import type { FetchLike } from '../../edge/fetch.ts';
import {
  type Id,
  INTERNAL_ERROR,
  isRequest,
  type Message,
  type Request as RpcRequest,
} from '../../wire/index.ts';
import { statusOf } from '../connection/errors.ts';
import { isMcp } from '../connection/http.ts';
import type { HostTransport } from './host-transport.ts';

/** The maximum number of messages that wait for a stream of the host. The oldest are dropped first. */
const MAX_WAITING = 1000;

/**
 * A `fetch` for hosts that create their own Streamable HTTP transport. It acts as the server of that transport: it passes
 * each message to a Valise transport, and responds with what comes back.
 */
export class HostFetch {
  readonly #open: () => HostTransport;
  readonly #base: FetchLike;
  readonly #keeps: boolean;
  #transport: Promise<HostTransport> | undefined;
  #hasBegun = false;
  /** The responses in progress, by the id of their request. */
  readonly #answers = new Map<Id, MessageStream>();
  /** The stream that belongs to no request. */
  #standalone: MessageStream | undefined;
  readonly #waiting: Message[] = [];

  /**
   * `base` handles requests that are not MCP, such as those of a sign-in. `keeps` says whether a later process resumes the
   * session.
   */
  constructor(open: () => HostTransport, base: FetchLike, keeps: boolean) {
    this.#open = open;
    this.#base = base;
    this.#keeps = keeps;
  }

  readonly fetch: FetchLike = (url, init = {}) => {
    if (!isMcp(init)) return this.#base(url, init);
    if (init.method === 'POST') return this.#post(init);
    return init.method === 'DELETE' ? this.#delete() : this.#get(init);
  };

  async close(): Promise<void> {
    const transport = await this.#transport?.catch(() => undefined);
    this.#transport = undefined;
    await transport?.close();
  }

  async #post(init: RequestInit): Promise<Response> {
    const message = JSON.parse(String(init.body)) as Message;
    if (!isRequest(message)) {
      await (await this.#started()).send(message);
      return new Response(null, { status: 202 });
    }
    // A client that initializes again is a new one.
    if (message.method === 'initialize' && this.#hasBegun) await this.close();
    this.#hasBegun ||= message.method === 'initialize';
    const answer = new MessageStream(init.signal, () => this.#answers.delete(message.id));
    this.#answers.set(message.id, answer);
    try {
      const transport = await this.#started();
      const sent = transport.send(message, { requestSignal: init.signal ?? undefined });
      // The server may ask something before the request counts as sent.
      await Promise.race([sent, answer.begun]);
      sent.catch((error: unknown) => {
        answer.push(failed(message.id, error));
        answer.end();
      });
      return answer.response(transport.sessionId);
    } catch (error) {
      this.#answers.delete(message.id);
      return failure(message, error);
    }
  }

  async #get({ signal }: RequestInit): Promise<Response> {
    this.#standalone?.end();
    const stream = new MessageStream(signal, () => {
      if (this.#standalone === stream) this.#standalone = undefined;
    });
    this.#standalone = stream;
    for (const message of this.#waiting.splice(0)) stream.push(message);
    return stream.response((await this.#started()).sessionId);
  }

  /**
   * Handles the end of a session. OpenAI Agents and mcp-use end theirs whenever they close. A stored session stays for the
   * next process.
   */
  async #delete(): Promise<Response> {
    if (!this.#keeps) await (await this.#started()).terminateSession();
    await this.close();
    return new Response(null, { status: 200 });
  }

  #started(): Promise<HostTransport> {
    this.#transport ??= this.#start().catch((error: unknown) => {
      this.#transport = undefined;
      throw error;
    });
    return this.#transport;
  }

  async #start(): Promise<HostTransport> {
    const transport = this.#open();
    transport.onmessage = (message: Message) => this.#arrived(message);
    transport.onclose = () => {
      this.#transport = undefined;
      for (const stream of [...this.#answers.values()]) stream.end();
      this.#standalone?.end();
    };
    await transport.start();
    return transport;
  }

  #arrived(message: Message): void {
    if (!('method' in message)) {
      const answer = this.#answers.get(message.id as Id);
      answer?.push(message);
      answer?.end();
      return;
    }
    const stream = [...this.#answers.values()].at(-1) ?? this.#standalone;
    if (stream) stream.push(message);
    else if (this.#waiting.push(message) > MAX_WAITING) this.#waiting.shift();
  }
}

/** A response body of server-sent events, one message each. */
class MessageStream {
  /** Resolves with the first message, or when the stream ends. */
  readonly begun: Promise<void>;
  readonly #body: ReadableStream<Uint8Array>;
  readonly #over: () => void;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #begin: () => void = () => {};

  constructor(signal: AbortSignal | null | undefined, over: () => void) {
    this.#over = over;
    this.begun = new Promise((resolve) => {
      this.#begin = resolve;
    });
    this.#body = new ReadableStream({
      start: (controller) => {
        this.#controller = controller;
      },
      cancel: () => this.#leave(),
    });
    signal?.addEventListener(
      'abort',
      () => {
        const controller = this.#controller;
        this.#leave();
        controller?.error(signal.reason);
      },
      { once: true },
    );
  }

  push(message: Message): void {
    this.#controller?.enqueue(
      new TextEncoder().encode(`event: message\ndata: ${JSON.stringify(message)}\n\n`),
    );
    this.#begin();
  }

  end(): void {
    const controller = this.#controller;
    this.#leave();
    controller?.close();
  }

  response(sessionId: string | undefined): Response {
    const headers = {
      'content-type': 'text/event-stream',
      ...(sessionId !== undefined && { 'mcp-session-id': sessionId }),
    };
    return new Response(this.#body, { headers });
  }

  #leave(): void {
    this.#controller = undefined;
    this.#begin();
    this.#over();
  }
}

function failed(id: Id, error: unknown): Message {
  return { jsonrpc: '2.0', id, error: { code: INTERNAL_ERROR, message: messageOf(error) } };
}

/** Returns the response to a request that could not be delivered: the server's status, or the reason as an error. */
function failure({ id }: RpcRequest, error: unknown): Response {
  const status = statusOf(error);
  const { text } = ((error as { readonly data?: unknown }).data ?? {}) as { readonly text?: string };
  if (status !== undefined && status >= 400)
    return new Response(text ?? messageOf(error), {
      status,
      headers: { 'content-type': 'application/json' },
    });
  return Response.json(failed(id, error));
}
