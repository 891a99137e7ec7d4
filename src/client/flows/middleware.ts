import { type Next, NO_RESPONSE } from '../../core/compose.ts';
import { messageOf } from '../../errors.ts';
import { StdioClientTransport } from '../../link/stdio-client.ts';
import type { TransportLike } from '../../link/transport.ts';
import {
  CARRIERS,
  type Carrier,
  type Families,
  INPUT_METHODS,
  outcomeIn,
  type Response as RpcResponse,
} from '../../wire/index.ts';
import type { Call } from '../call.ts';
import { hasHttpEdge } from '../connection/http.ts';
import { CUT } from '../connection/unanswered.ts';
import type { ClientMiddleware, Connection } from '../connection.ts';
import type { ClientPart } from '../part.ts';
import type { ServerRequestMiddleware } from '../server-request.ts';
import { hasStdioEdge } from '../stdio-edge.ts';
import { AnsweringCalls } from './answering.ts';
import { FlowError } from './errors.ts';
import type { PendingStore } from './pending-store.ts';
import { type BadQuestions, type Questions, readQuestions } from './questions.ts';
import {
  answeredBy,
  contextOf,
  currentCall,
  followCalls,
  isGivenUp,
  QuestionsByContext,
  type SdkCall,
} from './sdk-calls.ts';
import { handOver, isOwn, replyHints, StateCarrier } from './state-carrier.ts';

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

  announce({ link: { transport } }: Connection): Families {
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
  async holds(id: string): Promise<boolean> {
    for (const { pending } of this.#sdkCalls) if (pending === id) return true;
    for (const connection of this.#clients.keys()) {
      if (await this.#answering.holds(connection, id)) return true;
      if (await this.#stateCarrier.holds(connection, id)) return true;
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
    const sdkCall = isOwn(call) ? undefined : currentCall(this.#clients.get(call.connection));
    if (sdkCall && this.#isResumed(sdkCall, call)) return next();
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
      if (isOwn(call)) return asked && 'carrier' in asked ? handOver(call.request.id, asked) : response;
      if (call.era === 'modern') return this.#observe(call, response, asked, sdkCall);
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

  /** Answers a call that was made to resume a pending question with that question. Returns false for other calls. */
  #isResumed(sdkCall: SdkCall, call: Call): boolean {
    const { resumes } = sdkCall;
    sdkCall.resumes = undefined;
    sdkCall.isAsking = resumes !== undefined;
    if (!resumes) return false;
    Object.assign(sdkCall, { pending: resumes.id, drop: this.#drop });
    if (resumes.requestState !== undefined) this.#observed.add(resumes.requestState, resumes.id);
    call.known = resumes.result;
    return true;
  }

  /** Answers questions and retries the call with the answers. */
  #answer(call: Call, asked: Questions | BadQuestions, next: Next<RpcResponse>): Promise<RpcResponse> {
    if (!('carrier' in asked) || asked.carrier === 'state')
      throw new Error(`The server's round cannot be read: ${'bad' in asked ? asked.bad : asked.carrier}.`);
    // The user may take hours, so later notifications from the server must not wait.
    call.connection.order.end(call);
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
    asked: Questions | BadQuestions | undefined,
    sdkCall: SdkCall | undefined,
  ): Promise<RpcResponse> {
    const { connection } = call;
    const before = answeredBy(call);
    const known = before === undefined ? undefined : this.#observed.take(before, sdkCall?.pending);
    if (isStillOpen(response) && known !== undefined) {
      this.#observed.add(before as string, known);
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
function mayAskDuring({ era, connection }: Call): boolean {
  const { server, target, link, isAskable } = connection;
  if (target.kind === 'unknown') return server.families.rounds.length > 0;
  return era === 'legacy' && isAskable && hasHttpEdge(link.transport);
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
