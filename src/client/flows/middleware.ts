import { type Next, NO_RESPONSE } from '../../core/compose.ts';
import { messageOf } from '../../core/errors.ts';
import type { TransportLike } from '../../core/instrument.ts';
import { StdioClientTransport } from '../../edge/stdio-client.ts';
import {
  CARRIERS,
  type Carrier,
  type Families,
  INPUT_METHODS,
  outcomeIn,
  type Response as RpcResponse,
} from '../../wire/index.ts';
import type { Call, ServerRequestMiddleware } from '../call.ts';
import { hasHttpEdge } from '../connection/http.ts';
import { CUT } from '../connection/streams.ts';
import type { ClientMiddleware, ClientPart, Connection } from '../connection.ts';
import { hasStdioEdge } from '../stdio-edge.ts';
import {
  AnsweringCalls,
  answeredBy,
  contextOf,
  currentCall,
  followCalls,
  isGivenUp,
  isOwn,
  QuestionsByContext,
  type SdkCall,
} from './answering.ts';
import { FlowError } from './errors.ts';
import type { PendingStore } from './pending-store.ts';
import { type BadQuestions, type Questions, readQuestions } from './questions.ts';
import { handOver, replyHints, StateCarrier } from './state-carrier.ts';

/** What is known about the questions of a call that the SDK answers by itself. */
interface Observed {
  readonly asked: Questions | BadQuestions | undefined;
  /** The context of the question that the call answers. */
  readonly answered: string | undefined;
  readonly sdkCall: SdkCall | undefined;
}

/** The client side of family R: answers the questions of servers, whatever carries them. */
export class Flows implements ClientPart {
  readonly #pendingStore: PendingStore;
  readonly #stateCarrier: StateCarrier;
  readonly #families: Families;
  readonly #answering: AnsweringCalls;
  readonly #observed: QuestionsByContext;
  /** The calls whose questions the SDK answers by itself, from their first question on. */
  readonly #sdkCalls = new Set<SdkCall>();
  readonly #clients = new Map<Connection, object>();
  readonly #drop = (id: string): Promise<void> => this.#pendingStore.tryDrop(id);
  /** The middleware for requests from the server. */
  readonly incoming: ServerRequestMiddleware;

  constructor(pendingStore: PendingStore, carriers?: readonly Carrier[]) {
    this.#pendingStore = pendingStore;
    this.#observed = new QuestionsByContext((id) => pendingStore.unwatched(id));
    this.#answering = new AnsweringCalls(pendingStore);
    this.#stateCarrier = new StateCarrier(pendingStore, this.#answering);
    this.incoming = this.#stateCarrier.middleware;
    // A host that chooses the carriers wants exactly the draft messages.
    this.#families = carriers ? { rounds: carriers } : { rounds: CARRIERS, expiry: true };
  }

  announce({ transport }: Connection): Families {
    return bringsTop(transport) ? this.#families : {};
  }

  /** Records which client a connection belongs to. */
  connected(client: object, connection: Connection): void {
    this.#clients.set(connection, client);
    // If the client cannot be asked, no call reaches one of its handlers.
    if (connection.isAskable) followCalls(client);
  }

  /** The open connections, each with its client. */
  get clients(): ReadonlyMap<Connection, object> {
    return this.#clients;
  }

  /** Whether a call of this process waits for this pending question. The outcome of an answer then belongs to that call. */
  async waitsFor(id: string): Promise<boolean> {
    for (const { pending } of this.#sdkCalls) if (pending === id) return true;
    for (const connection of this.#clients.keys()) {
      if (await this.#answering.waitsFor(connection, id)) return true;
      if (await this.#stateCarrier.waitsFor(connection, id)) return true;
    }
    return false;
  }

  closed(connection: Connection): void {
    this.#clients.delete(connection);
    this.#pendingStore.left(connection);
  }

  /** Answers the questions of a call. It is the outermost middleware, so that the retries pass all the others. */
  readonly middleware: ClientMiddleware = async (call, next) => {
    if (!INPUT_METHODS.includes(call.method)) return next();
    const isOurs = isOwn(call);
    const sdkCall = isOurs ? undefined : currentCall(this.#clients.get(call.connection));
    if (sdkCall) sdkCall.isAsking = sdkCall.resumes !== undefined;
    if (sdkCall?.resumes) {
      this.#resume(sdkCall, sdkCall.resumes, call);
      return next();
    }
    if (call.form.answer) call.addHints(replyHints(call));
    if (mayAskDuring(call)) call.addHints({ origin: call });
    const { server, target, epoch } = call.connection;
    // Responses to an earlier process's calls, which had the same ids, may still arrive.
    if (target.kind !== 'http' && server.families.rounds.length > 0 && call.baseId === call.request.id)
      call.baseId = `${epoch}.${call.request.id}`;
    let response = await next();
    for (;;) {
      const asked = readQuestions(response, call.cameWith);
      // The question crossed the cancellation on the wire. Nobody is asked on behalf of a cancelled call.
      if (asked && call.cancelled) return response;
      if (isOurs) return asked && 'carrier' in asked ? handOver(call.request.id, asked) : response;
      if (call.codec.asksByResult) {
        const answered = answeredBy(call);
        return asked || answered !== undefined || sdkCall?.pending !== undefined
          ? this.#observe(call, response, { asked, answered, sdkCall })
          : response;
      }
      if (!asked) return this.#ended(call, response);
      try {
        response = await this.#answer(call, asked, next);
      } catch (error) {
        if (error === NO_RESPONSE) throw error;
        this.#answering.take(call);
        const { code, message, data } = failureOf(error);
        return { jsonrpc: '2.0', id: call.request.id, error: { code, message, ...(data && { data }) } };
      }
    }
  };

  /** Answers a call that was made to resume a pending question with that question. */
  #resume(sdkCall: SdkCall, resumes: NonNullable<SdkCall['resumes']>, call: Call): void {
    const { id, requestState, result } = resumes;
    Object.assign(sdkCall, { resumes: undefined, pending: id, drop: this.#drop });
    if (requestState !== undefined) this.#observed.add(requestState, id);
    call.known = result;
  }

  /** Answers questions and retries the call with the answers. */
  #answer(call: Call, asked: Questions | BadQuestions, next: Next<RpcResponse>): Promise<RpcResponse> {
    if (!('carrier' in asked) || asked.carrier === 'state')
      throw new Error(
        `The questions of the server are invalid: ${'bad' in asked ? asked.bad : asked.carrier}.`,
      );
    // The user may take hours, so later notifications from the server must not wait.
    call.connection.release(call);
    return this.#answering.of(call).answer(asked, next);
  }

  async #ended(call: Call, response: RpcResponse): Promise<RpcResponse> {
    const answering = this.#answering.take(call);
    if (!answering) return response;
    if (isStillOpen(response)) return naming(response, await answering.pending);
    this.#stateCarrier.ended(call);
    await answering.end();
    return response;
  }

  #asking(sdkCall: SdkCall, pending: string | undefined): void {
    Object.assign(sdkCall, { pending, drop: this.#drop, isAsking: true });
    if (this.#sdkCalls.has(sdkCall)) return;
    this.#sdkCalls.add(sdkCall);
    const over = (): boolean => this.#sdkCalls.delete(sdkCall);
    sdkCall.done?.then(over, over);
  }

  /** Only stores the questions, in case the host exits before they are answered. On 2026-07-28 the SDK answers by itself. */
  async #observe(
    call: Call,
    response: RpcResponse,
    { asked, answered, sdkCall }: Observed,
  ): Promise<RpcResponse> {
    const { connection } = call;
    const known = answered === undefined ? undefined : this.#observed.take(answered, sdkCall?.pending);
    if (answered !== undefined && known !== undefined && isStillOpen(response)) {
      this.#observed.add(answered, known);
      return naming(response, known);
    }
    const input = asked && 'carrier' in asked && asked.carrier === 'input' ? asked : undefined;
    // If the client cannot be asked, the SDK ends the call with an error.
    if (!input || (input.questions.length > 0 && !connection.isAskable)) {
      if (sdkCall) sdkCall.pending = undefined;
      if (known !== undefined) await this.#pendingStore.tryDrop(known);
      return response;
    }
    const id = await this.#pendingStore.tryKeep(connection, this.#pendingStore.waiting(call), input, known);
    if (sdkCall) this.#asking(sdkCall, id);
    if (id === undefined) return response;
    if (sdkCall && isGivenUp(sdkCall) && !sdkCall.isResumed) await this.#pendingStore.tryDrop(id);
    else this.#observed.add(contextOf(call, input), id);
    return response;
  }
}

/** Whether a server may send requests during a call: on the response to its HTTP request, or in this process. */
function mayAskDuring({ codec, connection }: Call): boolean {
  const { server, target, transport } = connection;
  if (target.kind === 'unknown') return server.families.rounds.length > 0;
  return !codec.asksByResult && connection.isAskable && hasHttpEdge(transport);
}

/** Whether top-level members pass in both directions: our own edges handle the bytes, or there are no bytes. */
function bringsTop(transport: TransportLike): boolean {
  const { _otherTransport } = transport as { readonly _otherTransport?: unknown };
  return (
    hasHttpEdge(transport) ||
    hasStdioEdge(transport) ||
    transport instanceof StdioClientTransport ||
    _otherTransport !== undefined
  );
}

function failureOf(error: unknown): FlowError {
  if (error instanceof FlowError) return error;
  return new FlowError(-32_000, messageOf(error));
}

/**
 * Whether the question is still open: the call was cut off, so the server may never have continued it, or the server did not
 * keep its effects.
 */
function isStillOpen(response: RpcResponse): boolean {
  return 'error' in response && (response.error === CUT || outcomeIn(response.error) === 'not-done');
}

/** Adds the id of the pending question to the error of its call. */
function naming(response: RpcResponse, pending: string | undefined): RpcResponse {
  if (pending === undefined || !('error' in response)) return response;
  const { error } = response;
  return { ...response, error: { ...error, data: { ...(error.data as object | undefined), pending } } };
}
