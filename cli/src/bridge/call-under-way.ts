import { randomUUID } from 'node:crypto';
import { isObject } from 'mcp-valise/internal';
import {
  type Id,
  type InputRequest,
  inputRequired,
  type Message,
  type Params,
  type Request,
  type Response,
  type Result,
  type RpcError,
} from 'mcp-valise/wire';
import { CALL_CANCELLED } from './host-questions.ts';
import { LOG_LEVEL, newerError, newerResult } from './newer-shapes.ts';

/** Destinations for the messages of a call. */
export interface Ways {
  toHost(message: Message): void;
  toServer(message: Message): Promise<void>;
}

/**
 * A call of a newer host at an older server. The server sees one request and asks in the middle of it. The host sees one
 * request per round, each answered with questions except the last.
 */
export class CallUnderWay {
  readonly serverId: Id;
  readonly method: string;
  /** The `requestState` by which the host says which call its answers belong to. */
  readonly state: string = randomUUID();
  readonly serverToken: unknown;
  readonly wantsLog: boolean;
  readonly #ways: Ways;
  #hostId: Id | undefined;
  /** The host's latest request, whether answered or not. */
  #latestId: Id;
  #hostToken: unknown;
  /** Questions that the host has not seen. `#asked` holds those that it is about to answer, by key. */
  #waiting: Request[] = [];
  readonly #asked = new Map<string, Request>();
  #outcome: Response | undefined;
  #questions = 0;

  constructor({ id, method, params }: Request, ways: Ways) {
    // In the older era, 0 is the id of `initialize`, and the v1 SDK does not cancel a request with that id. A newer host
    // uses 0 for its first request and for its progress token, which some servers treat as absent.
    this.serverId = id || 'valise-call:0';
    this.method = method;
    this.#hostId = this.#latestId = id;
    this.#hostToken = params?._meta?.['progressToken'];
    this.serverToken = this.#hostToken === 0 ? this.serverId : this.#hostToken;
    this.wantsLog = params?._meta?.[LOG_LEVEL] !== undefined;
    this.#ways = ways;
  }

  /** The host request that waits for a response; undefined while the host is handling questions. */
  get hostId(): Id | undefined {
    return this.#hostId;
  }

  /** The id by which the host cancels the call, including while it is handling questions. */
  get latestId(): Id {
    return this.#latestId;
  }

  /** The progress token of the waiting request; undefined if none waits. */
  get hostToken(): unknown {
    return this.#hostId === undefined ? undefined : this.#hostToken;
  }

  /** Returns the call as the server sees it. */
  request(params: Params | undefined): Request {
    const { serverId: id, method, serverToken: progressToken } = this;
    const _meta = { ...params?._meta, ...(progressToken !== undefined && { progressToken }) };
    const older = Object.keys(_meta).length > 0 ? { ...params, _meta } : params;
    return { jsonrpc: '2.0', id, method, ...(older && { params: older }) };
  }

  /** Puts a question of the server to the host, immediately or in its next round. */
  ask(question: Request): void {
    this.#waiting.push(question);
    this.#turn();
  }

  /** Whether the server withdrew a question of this call; if so, the question is dropped. */
  withdrew(id: unknown): boolean {
    const before = this.#waiting.length;
    this.#waiting = this.#waiting.filter((question) => question.id !== id);
    if (this.#waiting.length < before) return true;
    return this.#forget(id);
  }

  /** Handles the host's retry with answers. A question that it left out is asked again. */
  again({ id, params }: Request): void {
    this.#hostId = this.#latestId = id;
    this.#hostToken = params?._meta?.['progressToken'];
    const answers = isObject(params?.['inputResponses']) ? params['inputResponses'] : {};
    for (const [key, question] of this.#asked) {
      const answer = Object.hasOwn(answers, key) ? answers[key] : undefined;
      if (isObject(answer))
        void this.#ways.toServer({ jsonrpc: '2.0', id: question.id, result: answer as Result });
      else this.#waiting.push(question);
    }
    this.#asked.clear();
    this.#turn();
  }

  /** Records the server's response and passes it on once the host waits. Returns true if the host received it now. */
  end(response: Response): boolean {
    this.#outcome = response;
    return this.#turn();
  }

  /** Drops all questions because the server is gone, and ends the call with `error`. */
  lose(error: RpcError): void {
    this.#waiting = [];
    this.#asked.clear();
    this.#outcome ??= { jsonrpc: '2.0', id: this.serverId, error };
  }

  /** Whether the server has finished the call and the host has not yet asked for the outcome. */
  get isLeft(): boolean {
    return this.#outcome !== undefined;
  }

  /** Rejects all open questions because the host cancelled the call. */
  drop(): void {
    for (const { id } of [...this.#waiting.splice(0), ...this.#asked.values()])
      void this.#ways.toServer({ jsonrpc: '2.0', id, error: CALL_CANCELLED });
    this.#asked.clear();
  }

  /** Sends the host the outcome or the waiting questions, if it waits for a response. */
  #turn(): boolean {
    const id = this.#hostId;
    if (id === undefined || (!this.#outcome && this.#waiting.length === 0)) return false;
    this.#hostId = undefined;
    if (this.#outcome) {
      this.#ways.toHost(this.#newer(id, this.#outcome));
      return true;
    }
    const inputRequests: Record<string, InputRequest> = {};
    for (const question of this.#waiting.splice(0)) {
      const key = `q${++this.#questions}`;
      this.#asked.set(key, question);
      const { method, params } = question;
      inputRequests[key] = { method, ...(params && { params }) };
    }
    this.#ways.toHost({
      jsonrpc: '2.0',
      id,
      result: inputRequired({ inputRequests, requestState: this.state }),
    });
    return false;
  }

  #newer(id: Id, outcome: Response): Response {
    return 'result' in outcome
      ? { jsonrpc: '2.0', id, result: newerResult(this.method, outcome.result) }
      : { jsonrpc: '2.0', id, error: newerError(outcome.error) };
  }

  #forget(id: unknown): boolean {
    for (const [key, question] of this.#asked) if (question.id === id) return this.#asked.delete(key);
    return false;
  }
}
