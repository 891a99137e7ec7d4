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
import type { ClientMiddleware, Connection } from '../connection.ts';
import { CUT } from '../continuity/cut-answers.ts';
import { hasHttpEdge } from '../http-edge.ts';
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

/** Family R on the client's side: echoes what servers carry, and answers their rounds. */
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
    // A host that chooses the carriers wants the messages of the drafts, to the letter.
    this.#families = carriers ? { rounds: carriers } : { rounds: CARRIERS, expiry: true };
  }

  announce({ link: { transport } }: Connection): Families {
    return bringsTop(transport) ? this.#families : {};
  }

  /** Notes whose connection it is. */
  connected(client: object, connection: Connection): void {
    this.#clients.set(connection, client);
    // Where nobody can be asked, no call comes to a handler of the client's.
    if (connection.isAskable) followCalls(client);
  }

  /** The open connections, each with its client. */
  get clients(): ReadonlyMap<Connection, object> {
    return this.#clients;
  }

  /** True where a call of this process is under way in the round of this id: what comes of an answer is the call's. */
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

  /** Answers the rounds of a call; it is outside of all that the answers must pass through too. */
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
      // It has crossed the cancellation on its way: nobody is asked for a call that is given up.
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

  /** Where answers of an earlier process may still come: its calls had the same numbers as ours. */
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

  /** A cancelled call asks nobody any more; one that the SDK gave up waiting for stays open for later. */
  notifying({ method, params }: Notification, connection: Connection): boolean {
    if (method !== 'notifications/cancelled') return false;
    const { requestId, reason } = params ?? {};
    const keep = saysTimeout(reason);
    this.#echo.cancelled(connection, requestId as Id, keep);
    const drive = this.#drives.take(connection, requestId as Id);
    if (!drive) return false;
    void drive.cancel(keep);
    // While the client is asked, the server has nothing to cancel: it has answered with its questions.
    return drive.isAsking;
  }

  /** Answers a round, and sends the call once more with the answers. */
  #goOn(call: Call, round: Round | BadRound, next: Next<RpcResponse>): Promise<RpcResponse> {
    if (!('form' in round) || round.form === 'state')
      throw new Error(`The server's round cannot be read: ${'bad' in round ? round.bad : round.form}.`);
    // The user may take hours: what the server tells meanwhile need not wait.
    call.connection.release(call);
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

  /** On 2026-07-28 the SDK answers rounds by itself: what is open is only kept, for a host that dies over it. */
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
    // Where nobody can be asked, the SDK ends the call with that.
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

/** True where a server may ask in the course of a call: on the answer of its HTTP request, or in this process. */
function mayAskInCourse({ era, connection }: Call): boolean {
  const { server, target, link, isAskable } = connection;
  if (target.kind === 'unknown') return server.families.rounds.length > 0;
  return era === 'legacy' && isAskable && hasHttpEdge(link.transport);
}

/** True where top-level members pass in both directions: our own edges are on the bytes, or there are none. */
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

/** True where the round is still open: the call was cut off, and the server may never have gone on, or kept nothing of it. */
function isStillOpen(response: RpcResponse): boolean {
  return 'error' in response && (response.error === CUT || outcomeIn(response.error) === 'not-done');
}

/** The error of a call whose round is still kept: it names the round. */
async function naming(
  response: RpcResponse,
  kept: Promise<string | undefined> | undefined,
): Promise<RpcResponse> {
  const pending = await kept;
  if (pending === undefined || !('error' in response)) return response;
  const { error } = response;
  return { ...response, error: { ...error, data: { ...(error.data as object | undefined), pending } } };
}
