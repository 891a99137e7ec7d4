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

/** Where the messages of a call go. */
export interface Ways {
  toHost(message: Message): void;
  toServer(message: Message): Promise<void>;
}

/**
 * A call of a newer host at an older server. The server sees one request, and asks in the middle of it; the host sees
 * as many as there are rounds, each answered with questions but the last.
 */
export class CallUnderWay {
  readonly serverId: Id;
  readonly method: string;
  /** By this, the host says with its answers which call they belong to. */
  readonly state: string = randomUUID();
  readonly serverToken: unknown;
  readonly wantsLog: boolean;
  readonly #ways: Ways;
  #hostId: Id | undefined;
  /** The host's latest request, be it answered or not. */
  #latestId: Id;
  #hostToken: unknown;
  /** Questions that the host has not seen, and those that it is about to answer, by their key. */
  #waiting: Request[] = [];
  readonly #asked = new Map<string, Request>();
  #outcome: Response | undefined;
  #questions = 0;

  constructor({ id, method, params }: Request, ways: Ways) {
    // In the older era 0 is the id of `initialize`, and the v1 SDK cancels nothing that is called so. A newer host calls
    // its first request 0, and its progress too, which some servers take for none.
    this.serverId = id || 'valise-call:0';
    this.method = method;
    this.#hostId = this.#latestId = id;
    this.#hostToken = params?._meta?.['progressToken'];
    this.serverToken = this.#hostToken === 0 ? this.serverId : this.#hostToken;
    this.wantsLog = params?._meta?.[LOG_LEVEL] !== undefined;
    this.#ways = ways;
  }

  /** The request that waits for an answer; none while the host is busy with questions. */
  get hostId(): Id | undefined {
    return this.#hostId;
  }

  /** By this, the host takes the call back, also while it is busy with questions. */
  get latestId(): Id {
    return this.#latestId;
  }

  /** What progress is called in the request that waits; none while none does. */
  get hostToken(): unknown {
    return this.#hostId === undefined ? undefined : this.#hostToken;
  }

  /** The call as the server sees it. */
  request(params: Params | undefined): Request {
    const { serverId: id, method, serverToken: progressToken } = this;
    const _meta = { ...params?._meta, ...(progressToken !== undefined && { progressToken }) };
    const older = Object.keys(_meta).length > 0 ? { ...params, _meta } : params;
    return { jsonrpc: '2.0', id, method, ...(older && { params: older }) };
  }

  /** Puts a question of the server to the host, at once or in its next round. */
  ask(question: Request): void {
    this.#waiting.push(question);
    this.#turn();
  }

  /** True where the server does not want to know any more what it asked here. */
  withdrew(id: unknown): boolean {
    const before = this.#waiting.length;
    this.#waiting = this.#waiting.filter((question) => question.id !== id);
    if (this.#waiting.length < before) return true;
    return this.#forget(id);
  }

  /** The host has sent the call again, with answers. A question that it left out is put once more. */
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

  /** The server has answered. The host hears of it once it waits; true where it does. */
  end(response: Response): boolean {
    this.#outcome = response;
    return this.#turn();
  }

  /** The server is gone, and with it what it asked. */
  lose(error: RpcError): void {
    this.#waiting = [];
    this.#asked.clear();
    this.#outcome ??= { jsonrpc: '2.0', id: this.serverId, error };
  }

  /** True where the server is done with the call and the host has not asked for the outcome. */
  get isLeft(): boolean {
    return this.#outcome !== undefined;
  }

  /** The host has taken the call back: nobody will answer what the server asked. */
  drop(): void {
    for (const { id } of [...this.#waiting.splice(0), ...this.#asked.values()])
      void this.#ways.toServer({ jsonrpc: '2.0', id, error: CALL_CANCELLED });
    this.#asked.clear();
  }

  /** Says to the host what there is to say, where it waits. */
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
