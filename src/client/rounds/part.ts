import { randomBytes } from 'node:crypto';
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
  type Response as RpcResponse,
} from '../../wire/index.ts';
import type { Ask } from '../ask.ts';
import type { Call } from '../call.ts';
import type { Connection } from '../connection.ts';
import { hasHttpEdge } from '../http.ts';
import type { ClientPart } from '../part.ts';
import type { RoundDesk } from './desk.ts';
import { Drive, RoundFailure } from './driver.ts';
import { Echo } from './echo.ts';
import { currentCall, followCalls, type OpenCall, saysTimeout } from './open-calls.ts';
import { takeResumed } from './resumed.ts';
import { type BadRound, type Round, readRound } from './round.ts';
import { answeredBy, contextOf, Watched } from './watched.ts';

/** Brings a round to whoever sent the call that it answers, where that was Valise itself. */
export const ROUND = Symbol('round');

/** Family R on the client's side: echoes what servers carry, and answers their rounds. */
export class RoundsPart implements ClientPart {
  readonly #desk: RoundDesk;
  readonly #echo: Echo;
  readonly #carriers: readonly Carrier[];
  readonly #epoch = randomBytes(6).toString('base64url');
  readonly #drives = new WeakMap<Connection, Map<Id, Drive>>();
  readonly #observed = new Watched();
  readonly #clients = new Map<Connection, object>();

  constructor(desk: RoundDesk, carriers: readonly Carrier[] = CARRIERS) {
    this.#desk = desk;
    this.#echo = new Echo(desk);
    this.#carriers = carriers;
  }

  announce({ link: { transport } }: Connection): Families {
    return bringsTop(transport) ? { rounds: this.#carriers } : {};
  }

  /** Notes whose connection it is. */
  connected(client: object, connection: Connection): void {
    this.#clients.set(connection, client);
    followCalls(client, (id) => this.#desk.drop(id));
  }

  /** True while a question of the server is open on a connection. */
  isAsking(connection: Connection): boolean {
    return this.#echo.isAsking(connection);
  }

  /** The open connections, each with its client. */
  get clients(): ReadonlyMap<Connection, object> {
    return this.#clients;
  }

  closed(connection: Connection): void {
    this.#clients.delete(connection);
    this.#echo.closed(connection);
    for (const drive of this.#drives.get(connection)?.values() ?? []) void drive.cancel(true);
    this.#drives.delete(connection);
  }

  outbound(call: Call): void {
    if (!INPUT_METHODS.includes(call.method)) return;
    const resumed = takeResumed();
    const open = currentCall();
    if (open) open.isAsking = resumed !== undefined;
    if (resumed) {
      if (open) Object.assign(open, { pending: resumed.id, isResumed: true });
      call.answerWith(resumed.result);
      if (resumed.requestState !== undefined) this.#observed.add(resumed.requestState, resumed.id);
      return;
    }
    if (mayAskInCourse(call.connection)) call.addErrand({ origin: call });
    this.#tellApart(call);
    call.whenAnswered((response, top) => {
      const round = readRound(response, top);
      if (isOwn(call)) return round && 'form' in round ? handOver(response, round) : response;
      if (call.era === 'modern') return this.#observe(call, response, round, open);
      return round ? this.#drive(call, round) : this.#ended(call, response);
    });
  }

  /** Where answers of an earlier process may still come: its calls had the same numbers as ours. */
  #tellApart(call: Call): void {
    const { server, target } = call.connection;
    if (target.kind === 'http' || server.families.rounds.length === 0 || call.wireId !== call.request.id)
      return;
    call.wireId = `${this.#epoch}.${call.request.id}`;
  }

  asked(ask: Ask): Promise<boolean> | undefined {
    return this.#echo.asked(ask);
  }

  /** A cancelled call asks nobody any more; one that the SDK gave up waiting for stays open for later. */
  notifying({ method, params }: Notification, connection: Connection): boolean {
    if (method !== 'notifications/cancelled') return false;
    const { requestId, reason } = params ?? {};
    const keep = saysTimeout(reason);
    this.#echo.cancelled(connection, requestId as Id, keep);
    const drives = this.#drives.get(connection);
    const drive = drives?.get(requestId as Id);
    if (!drive) return false;
    drives?.delete(requestId as Id);
    void drive.cancel(keep);
    // While the client is asked, the server has nothing to cancel: it has answered with its questions.
    return drive.isAsking;
  }

  #drive(call: Call, round: Round | BadRound): undefined {
    const { connection, request } = call;
    const drives = this.#drives.get(connection) ?? new Map<Id, Drive>();
    this.#drives.set(connection, drives);
    const drive = drives.get(request.id) ?? new Drive(call, this.#desk);
    drives.set(request.id, drive);
    const going =
      'form' in round && round.form !== 'state'
        ? drive.round(round)
        : Promise.reject(
            new Error(`The server's round cannot be read: ${'bad' in round ? round.bad : round.form}.`),
          );
    going.catch((error: unknown) => {
      drives.delete(request.id);
      const { code, message, data } = failureOf(error);
      connection.fail(call, code, message, data);
    });
    return undefined;
  }

  #ended(call: Call, response: RpcResponse): RpcResponse | Promise<RpcResponse> {
    const drives = this.#drives.get(call.connection);
    const drive = drives?.get(call.request.id);
    if (!drive) return response;
    drives?.delete(call.request.id);
    return drive.end().then(() => response);
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
    if (!round || !('form' in round) || round.form !== 'input') {
      if (open) open.pending = undefined;
      return kept === undefined ? response : this.#desk.tryDrop(kept).then(() => response);
    }
    return this.#desk.tryKeep(connection, this.#desk.waiting(call), round, kept).then((id) => {
      if (open) Object.assign(open, { pending: id, isAsking: true });
      if (id === undefined) return response;
      if (open?.isGivenUp && !open.isResumed) return this.#desk.tryDrop(id).then(() => response);
      this.#observed.add(contextOf(call, round), id);
      return response;
    });
  }
}

/** True where a server may ask in the course of a call: on the answer of its HTTP request, or in this process. */
function mayAskInCourse({ server, target, link: { transport } }: Connection): boolean {
  return target.kind === 'unknown' ? server.families.rounds.length > 0 : hasHttpEdge(transport);
}

/** True where top-level members pass in both directions: our own edges are on the bytes, or there are none. */
function bringsTop(transport: TransportLike): boolean {
  const { _otherTransport } = transport as { readonly _otherTransport?: unknown };
  return hasHttpEdge(transport) || transport instanceof StdioClientTransport || _otherTransport !== undefined;
}

function failureOf(error: unknown): RoundFailure {
  if (error instanceof RoundFailure) return error;
  return new RoundFailure(-32_000, messageOf(error));
}

function isOwn({ request }: Call): boolean {
  return typeof request.id === 'string' && request.id.startsWith('valise:');
}

function handOver(response: RpcResponse, round: Round): RpcResponse {
  return { jsonrpc: '2.0', id: response.id ?? '', result: { [ROUND]: round } as never };
}
