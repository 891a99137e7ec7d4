import { NO_RESPONSE } from '../../core/compose.ts';
import { messageOf, ValiseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { raise, takeTop } from '../../edge/drafts.ts';
import { currentHints, type HttpHints, withHints } from '../../edge/fetch.ts';
import { sseData } from '../../edge/sse.ts';
import {
  type Id,
  INPUT_METHODS,
  isResponse,
  type Message,
  type Result,
  type Response as RpcResponse,
} from '../../wire/index.ts';
import { readQuestionId } from '../../wire/question-id.ts';
import type { ServerRequest, ServerRequestMiddleware } from '../call.ts';
import { Call, type CallForm } from '../call.ts';
import { hasHttpEdge } from '../connection/http.ts';
import type { Connection } from '../connection.ts';
import { sessionsLacking } from '../sessions/errors.ts';
import { type AnsweringCalls, isOwn } from './answering.ts';
import { EXPIRED, isExpired, LEFT_OPEN, leftOpen } from './errors.ts';
import type { PendingStore } from './pending-store.ts';
import type { Questions } from './questions.ts';

/** A question that came with a state, until it is answered. */
interface OpenQuestion {
  readonly exchange: ServerRequest;
  readonly call: Call | undefined;
  /** The id under which it is stored. Undefined if it does not need to be stored. */
  readonly pending: Promise<string | undefined> | undefined;
  /** Whether it is stored on its own and ends when it is answered. Otherwise it belongs to its call and ends with it. */
  readonly isAlone: boolean;
}

/** The drafts' top-level `state`: a question is a request of its own, and its answer returns the state byte for byte. */
export class StateCarrier {
  readonly #pendingStore: PendingStore;
  readonly #answering: AnsweringCalls;
  readonly #open = new Set<OpenQuestion>();

  constructor(pendingStore: PendingStore, answering: AnsweringCalls) {
    this.#pendingStore = pendingStore;
    this.#answering = answering;
  }

  /**
   * Handles a request from the server. The client sees it only after it is stored, so that it survives the end of this
   * process, and only if its answer is still needed by then.
   */
  readonly middleware: ServerRequestMiddleware = async (exchange, next) => {
    const { connection, top } = exchange;
    const call = callOf(exchange);
    // Other calls may change the session while the client is asked.
    const answer = async (): Promise<RpcResponse> =>
      this.#pendingStore.sessions.naming(connection, call?.session, await next());
    const state = top?.state;
    if (state === undefined) return answer();
    if (call?.cancelled) throw NO_RESPONSE;
    const asked = questionsOf(exchange, state, call);
    if (call && isOwn(call) && connection.waiting.get(call.wireId) === call) {
      connection.receive(handOver(call.wireId, asked));
      throw NO_RESPONSE;
    }
    if (call) call.movedOn = true;
    const open: OpenQuestion = { exchange, call, ...this.#store(exchange, call, asked) };
    // If the caller gives up, the server must not continue the call.
    const withdraw = (): void => connection.withdraw(exchange);
    call?.signal.addEventListener('abort', withdraw, { once: true });
    this.#open.add(open);
    let response: RpcResponse;
    try {
      await open.pending;
      response = await answer();
    } catch (error) {
      if (open.isAlone && isWithdrawn(open)) this.#drop(open);
      throw error;
    } finally {
      this.#open.delete(open);
      call?.signal.removeEventListener('abort', withdraw);
    }
    if ('error' in response && response.error.code === LEFT_OPEN && open.pending) {
      await this.#fail(open, LEFT_OPEN, (id) => leftOpen(id).message);
      throw NO_RESPONSE;
    }
    if (open.isAlone && connection.target.kind !== 'http') this.#drop(open);
    await this.#respond(open, raise(response, { state }));
    throw NO_RESPONSE;
  };

  /** Drops the other questions of a call once the server has returned its result. */
  ended(call: Call): void {
    for (const open of this.#open) if (open.isAlone && open.call === call) this.#drop(open);
  }

  /** Whether the connection's client is being asked the question stored under this id. */
  async waitsFor(connection: Connection, id: string): Promise<boolean> {
    for (const { exchange, pending } of this.#open)
      if (exchange.connection === connection && (await pending) === id) return true;
    return false;
  }

  #store(
    { connection, method }: ServerRequest,
    call: Call | undefined,
    asked: Questions,
  ): Pick<OpenQuestion, 'pending' | 'isAlone'> {
    const answering = call && this.#answering.of(call);
    // A `ping` is answered immediately. If its call is stored, the call continues from this question.
    if (method === 'ping') return { pending: answering?.pending && answering.store(asked), isAlone: false };
    const isSecond = [...this.#open].some((other) => other.call && other.call === call && other.pending);
    if (answering && !isSecond) return { pending: answering.store(asked), isAlone: false };
    // Except over HTTP, nobody could continue it.
    if (!call && connection.target.kind !== 'http') return { pending: undefined, isAlone: true };
    const waiting = call && this.#pendingStore.waiting(call);
    return { pending: this.#pendingStore.tryKeep(connection, waiting, asked), isAlone: true };
  }

  /** Sends the answer, once more if the reason why it could not be delivered is fixed. */
  async #respond(open: OpenQuestion, answer: RpcResponse): Promise<void> {
    const { exchange, call } = open;
    const isHttp = exchange.connection.target.kind === 'http';
    const hints: HttpHints = {
      onReply: (reply) => void this.#reply(open, reply),
      onResponse: ({ ok }) => {
        if (ok && open.isAlone) this.#drop(open);
      },
    };
    const send = (): Promise<void> => exchange.respond(answer, isHttp ? hints : undefined);
    try {
      await send().catch(async (error: unknown) => {
        if (!isHttp || !call || !(await this.#isFixed(exchange, call, error))) throw error;
        await send();
      });
    } catch (error) {
      if (isExpired(error)) void this.#expired(open);
      else {
        const reason = messageOf(error);
        void this.#fail(open, -32_000, () => `The answer could not be delivered: ${reason}`);
      }
      throw error;
    }
  }

  /** Starts a new transport session if necessary. The state lets any instance accept the answer. */
  async #isFixed({ leftIn }: ServerRequest, call: Call, error: unknown): Promise<boolean> {
    const { connection, session } = call;
    call.leftIn = leftIn;
    if (!(await connection.putRight(call, error))) return false;
    if (session !== undefined && connection.server.lacksSessions) throw sessionsLacking(undefined);
    return !call.isGivenUp;
  }

  /** Processes the server's response to the answer. */
  async #reply(open: OpenQuestion, reply: Response): Promise<void> {
    const why = await continueWith(open.exchange.connection, open.call, reply);
    // The server may never have continued the call, so the answer can be sent again.
    if (why !== undefined) await this.#fail(open, -32_000, () => why);
  }

  /** Drops a question whose answer the server no longer accepts. */
  async #expired({ call, pending }: OpenQuestion): Promise<void> {
    const id = await pending;
    if (id !== undefined) await this.#pendingStore.tryDrop(id);
    if (!call) return;
    this.#answering.take(call);
    call.connection.fail(call, EXPIRED.code, EXPIRED.message);
  }

  async #fail(
    { call, pending }: OpenQuestion,
    code: number,
    message: (id: string | undefined) => string,
  ): Promise<void> {
    const id = await pending;
    if (!call) return;
    this.#answering.take(call);
    call.connection.fail(call, code, message(id), id === undefined ? {} : { pending: id });
  }

  #drop({ pending }: OpenQuestion): void {
    pending?.then((id) => id !== undefined && this.#pendingStore.drop(id)).catch(() => {});
  }
}

/** Whether the server, or the caller, has withdrawn a question. It stays open if the caller timed out or a connection closed. */
function isWithdrawn({ exchange, call }: OpenQuestion): boolean {
  if (call?.signal.aborted) return call.signal.reason === 'cancelled';
  return exchange.signal.reason === 'cancelled';
}

function questionsOf(
  { request: { id, method, params } }: ServerRequest,
  state: string,
  call: Call | undefined,
): Questions {
  return {
    carrier: 'state',
    questions: [{ key: String(id), method, ...(params && { params }) }],
    state,
    askId: id,
    ...(call && { callId: call.wireId }),
  };
}

/**
 * Returns the call during which the server asks: the one whose HTTP response carried the question, the one its id names, or
 * the only one in progress.
 */
function callOf({ connection, request: { id } }: ServerRequest): Call | undefined {
  const origin = currentHints()?.origin;
  if (origin instanceof Call && origin.connection === connection) return origin;
  const named = readQuestionId(id)?.call;
  if (named !== undefined) return connection.waiting.get(named);
  const calls = [...connection.waiting.values()].filter((call) => INPUT_METHODS.includes(call.method));
  return calls.length === 1 ? calls[0] : undefined;
}

/** The key under which questions are handed to the sender of their call, if that was Valise itself. */
const QUESTIONS = Symbol('questions');

/** Wraps questions as the response to one of Valise's own calls. */
export function handOver(id: Id, asked: Questions): RpcResponse {
  return { jsonrpc: '2.0', id, result: { [QUESTIONS]: asked } as never };
}

/** Returns the questions that were handed over as a result, if any. */
export function handedOver(result: Result): Questions | undefined {
  return (result as { readonly [QUESTIONS]?: Questions })[QUESTIONS];
}

/** Returns the form of a call that sends only the answer, with the state that came with the question. */
export function answerTo(
  { target, transport }: Connection,
  id: string,
  { state, askId, callId }: Questions & { readonly carrier: 'state' },
  answer: (id: Id) => RpcResponse,
): NonNullable<CallForm['answer']> {
  const message = (): Message => raise(answer(askId), { state });
  // Over HTTP the outcome arrives on the response to the answer. On other transports only the call's id identifies it.
  const wireId = target.kind === 'http' ? undefined : callId;
  if (target.kind === 'http' ? hasHttpEdge(transport) : wireId !== undefined) return { message, wireId };
  throw new ValiseError(
    'not-delivered',
    `The result of the pending round "${id}" cannot arrive on this connection.`,
    {
      next:
        target.kind === 'http'
          ? 'Connect with valise.connect(client, url), then answer.'
          : 'Drop it, and repeat the call.',
    },
  );
}

/** Returns hints that read the HTTP response to an answer, because the rest of the call arrives on it. */
export function replyHints(call: Call): HttpHints {
  const fail = (what: string): void =>
    call.fail(
      new ValiseError('not-delivered', what, {
        next: 'The question is still pending. Answer it again, or drop it and repeat the call.',
      }),
    );
  return {
    onReply: (reply) =>
      void continueWith(call.connection, call, reply).then((why) => why !== undefined && fail(why)),
    onResponse: ({ ok, status, body }) => {
      if (ok && (status !== 200 || !body))
        fail('The server accepted the answer but did not continue the call.');
    },
  };
}

/**
 * Processes the HTTP response to an answer. It carries the rest of the call, up to its result or its next question with a
 * state; other server requests do not continue the call. Returns the reason if the call does not continue.
 */
async function continueWith(
  connection: Connection,
  call: Call | undefined,
  reply: Response,
): Promise<string | undefined> {
  let continues = false;
  let reason = 'the server ended it';
  try {
    for await (const message of messagesOf(reply)) {
      continues ||= isResponse(message) || takeTop(message).top?.state !== undefined;
      // An earlier process may have made the call under an id that belongs to another call here.
      const own = call && isResponse(message) ? { ...message, id: call.wireId } : message;
      // The message still belongs to the call, even if it is the next question.
      withHints(call ? { origin: call } : {}, () => connection.receive(own));
    }
  } catch (error) {
    reason = messageOf(error);
  }
  return continues ? undefined : `The connection broke off before the call was answered: ${reason}.`;
}

/** Yields the messages in the HTTP response to one of our responses. The edge has already adapted them for the SDK. */
async function* messagesOf(reply: Response): AsyncGenerator<Message> {
  const type = reply.headers.get('content-type') ?? '';
  if (type.startsWith('application/json')) {
    const body: unknown = await reply.json();
    for (const message of Array.isArray(body) ? body : [body])
      if (isObject(message)) yield message as unknown as Message;
    return;
  }
  if (!type.startsWith('text/event-stream') || !reply.body) {
    await reply.body?.cancel();
    return;
  }
  for await (const data of sseData(reply.body)) {
    const message: unknown = JSON.parse(data);
    if (isObject(message)) yield message as unknown as Message;
  }
}
