import { type Next, NO_RESPONSE } from '../../core/compose.ts';
import { messageOf } from '../../errors.ts';
import { StdioClientTransport } from '../../link/stdio-client.ts';
import type { TransportLike } from '../../link/transport.ts';
import {
  CARRIERS,
  type Carrier,
  type Families,
  type Id,
  INPUT_METHODS,
  type Notification,
  outcomeIn,
  type Response as RpcResponse,
} from '../../wire/index.ts';
import type { Ask } from '../ask.ts';
import type { Call } from '../call.ts';
import { hasHttpEdge } from '../connection/http.ts';
import { CUT } from '../connection/unanswered.ts';
import type { ClientMiddleware, Connection } from '../connection.ts';
import type { ClientPart } from '../part.ts';
import { hasStdioEdge } from '../stdio-edge.ts';
import { followed } from './deliver.ts';
import { RoundFailure } from './driver.ts';
import { Drives } from './drives.ts';
import { Echo } from './echo.ts';
import { currentCall, followCalls, isGivenUp, type OpenCall, saysTimeout } from './open-calls.ts';
import { handOver, isOwn } from './own-call.ts';
import type { PendingStore } from './pending-store.ts';
import { takeResumed } from './resumed.ts';
import { type BadRound, type Round, readRound } from './round.ts';
import { answeredBy, contextOf, Watched } from './watched.ts';

/** The client side of family R: echoes the state that servers carry, and answers their rounds. */
export class RoundsPart implements ClientPart {
  readonly #pendingStore: PendingStore;
  readonly #echo: Echo;
  readonly #families: Families;
  readonly #drives: Drives;
  readonly #observed: Watched;
  /** The calls whose rounds the SDK answers by itself, from their first round on. */
  readonly #asked = new Set<OpenCall>();
  readonly #clients = new Map<Connection, object>();
  readonly #drop = (id: string): Promise<void> => this.#pendingStore.tryDrop(id);

  constructor(pendingStore: PendingStore, carriers?: readonly Carrier[]) {
    this.#pendingStore = pendingStore;
    this.#observed = new Watched((id) => pendingStore.unwatched(id));
    this.#drives = new Drives(pendingStore);
    this.#echo = new Echo(pendingStore, this.#drives);
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

  /**
   * Whether a call of this process is in progress in the round with this id. The outcome of an answer then belongs to that call.
   */
  async holds(id: string): Promise<boolean> {
    for (const { pending } of this.#asked) if (pending === id) return true;
    for (const connection of this.#clients.keys()) {
      if (await this.#drives.holds(connection, id)) return true;
      if (await this.#echo.holds(connection, id)) return true;
    }
    return false;
  }

  closed(connection: Connection): void {
    this.#clients.delete(connection);
    this.#pendingStore.left(connection);
    this.#echo.closed(connection);
    this.#drives.closed(connection);
  }

  /** Answers the rounds of a call. It is the outermost middleware, so that the answers pass all the others. */
  readonly middleware: ClientMiddleware = async (call, next) => {
    if (!INPUT_METHODS.includes(call.method)) return next();
    const resumed = takeResumed();
    const open = isOwn(call) ? undefined : currentCall(this.#clients.get(call.connection));
    if (open) open.isAsking = resumed !== undefined;
    if (resumed) {
      if (open) Object.assign(open, { pending: resumed.id, drop: this.#drop, isResumed: true });
      if (resumed.requestState !== undefined) this.#observed.add(resumed.requestState, resumed.id);
      call.known = resumed.result;
      return next();
    }
    if (call.form.answer) call.addHints(followed(call));
    if (mayAskInCourse(call)) call.addHints({ origin: call });
    this.#tellApart(call);
    let response = await next();
    for (;;) {
      const round = readRound(response, call.cameWith);
      // The round crossed the cancellation on the wire. Nobody is asked on behalf of a cancelled call.
      if (round && call.cancelled) return response;
      if (isOwn(call)) return round && 'form' in round ? handOver(call.request.id, round) : response;
      if (call.era === 'modern') return this.#observe(call, response, round, open);
      if (!round) return this.#ended(call, response);
      try {
        response = await this.#goOn(call, round, next);
      } catch (error) {
        if (error === NO_RESPONSE) throw error;
        this.#drives.take(call.connection, call.request.id);
        const { code, message, data } = failureOf(error);
        return { jsonrpc: '2.0', id: call.request.id, error: { code, message, ...(data && { data }) } };
      }
    }
  };

  /** Makes the call's id unique, because responses to an earlier process's calls, which had the same ids, may still arrive. */
  #tellApart(call: Call): void {
    const { server, target, epoch } = call.connection;
    if (target.kind === 'http' || server.families.rounds.length === 0 || call.baseId !== call.request.id)
      return;
    call.baseId = `${epoch}.${call.request.id}`;
  }

  asked(ask: Ask): Promise<boolean> | undefined {
    return this.#echo.asked(ask);
  }

  notified({ method, params }: Notification, connection: Connection): boolean {
    if (method === 'notifications/cancelled') this.#echo.withdrawn(connection, params?.['requestId']);
    return false;
  }

  /** Stops asking for a cancelled call. If the SDK only timed out, the question stays open for later. */
  notifying({ method, params }: Notification, connection: Connection): boolean {
    if (method !== 'notifications/cancelled') return false;
    const { requestId, reason } = params ?? {};
    const keep = saysTimeout(reason);
    this.#echo.cancelled(connection, requestId as Id, keep);
    const drive = this.#drives.take(connection, requestId as Id);
    if (!drive) return false;
    void drive.cancel(keep);
    // While the client is asked, the server has nothing to cancel: it has already responded with its questions.
    return drive.isAsking;
  }

  /** Answers a round and retries the call with the answers. */
  #goOn(call: Call, round: Round | BadRound, next: Next<RpcResponse>): Promise<RpcResponse> {
    if (!('form' in round) || round.form === 'state')
      throw new Error(`The server's round cannot be read: ${'bad' in round ? round.bad : round.form}.`);
    // The user may take hours, so later notifications from the server must not wait.
    call.connection.order.end(call);
    return this.#drives.of(call).round(round, next);
  }

  #ended(call: Call, response: RpcResponse): RpcResponse | Promise<RpcResponse> {
    const drive = this.#drives.take(call.connection, call.request.id);
    if (!drive) return response;
    if (isStillOpen(response)) return naming(response, drive.kept);
    this.#echo.ended(call);
    return drive.end().then(() => response);
  }

  #asking(open: OpenCall, pending: string | undefined): void {
    Object.assign(open, { pending, drop: this.#drop, isAsking: true });
    if (this.#asked.has(open)) return;
    this.#asked.add(open);
    const over = (): boolean => this.#asked.delete(open);
    open.going?.then(over, over);
  }

  /** Only stores the open round, in case the host exits before it is answered. On 2026-07-28 the SDK answers rounds by itself. */
  #observe(
    call: Call,
    response: RpcResponse,
    round: Round | BadRound | undefined,
    open: OpenCall | undefined,
  ): RpcResponse | Promise<RpcResponse> {
    const { connection } = call;
    const before = answeredBy(call);
    const kept = before === undefined ? undefined : this.#observed.take(before, open?.pending);
    if (isStillOpen(response) && kept !== undefined) {
      this.#observed.add(before as string, kept);
      return naming(response, Promise.resolve(kept));
    }
    const input = round && 'form' in round && round.form === 'input' ? round : undefined;
    // If the client cannot be asked, the SDK ends the call with an error.
    if (!input || (input.questions.length > 0 && !connection.isAskable)) {
      if (open) open.pending = undefined;
      return kept === undefined ? response : this.#pendingStore.tryDrop(kept).then(() => response);
    }
    return this.#pendingStore
      .tryKeep(connection, this.#pendingStore.waiting(call), input, kept)
      .then((id) => {
        if (open) this.#asking(open, id);
        if (id === undefined) return response;
        if (open && isGivenUp(open) && !open.isResumed)
          return this.#pendingStore.tryDrop(id).then(() => response);
        this.#observed.add(contextOf(call, input), id);
        return response;
      });
  }
}

/** Whether a server may send requests during a call: on the response to its HTTP request, or in this process. */
function mayAskInCourse({ era, connection }: Call): boolean {
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

function failureOf(error: unknown): RoundFailure {
  if (error instanceof RoundFailure) return error;
  return new RoundFailure(-32_000, messageOf(error));
}

/**
 * Whether the round is still open: the call was cut off, so the server may never have continued it, or the server did not
 * keep its effects.
 */
function isStillOpen(response: RpcResponse): boolean {
  return 'error' in response && (response.error === CUT || outcomeIn(response.error) === 'not-done');
}

/** Adds the id of the stored round to the error of its call. */
async function naming(
  response: RpcResponse,
  kept: Promise<string | undefined> | undefined,
): Promise<RpcResponse> {
  const pending = await kept;
  if (pending === undefined || !('error' in response)) return response;
  const { error } = response;
  return { ...response, error: { ...error, data: { ...(error.data as object | undefined), pending } } };
}
