import { randomUUID } from 'node:crypto';
import {
  type Id,
  type InputRequest,
  inputRequired,
  isObject,
  type Params,
  type Request,
  type Response,
  type Result,
} from 'mcp-valise/internal';
import { CALL_CANCELLED, LOG_LEVEL, newerError, newerResult, SERVER_CHANGED } from './shapes.ts';
import type { Sides } from './translation.ts';

/**
 * A call of a newer host at an older server. The server sees one request and asks in the middle of it. The host sees one
 * request per round, each answered with questions except the last.
 */
export class NewerCall {
  readonly first: Request;
  readonly serverId: Id;
  /** The `requestState` by which the host says which call its answers belong to. */
  readonly state: string = randomUUID();
  readonly wantsLog: boolean;
  readonly #bridge: Sides;
  /** The host's latest request, by whose id it cancels the call, also while it handles questions. */
  #latest: Request;
  /** Whether the host waits for a response. If not, it handles questions. */
  #isAwaited = true;
  /** Questions that the host has not seen. */
  #waiting: Request[] = [];
  /** Questions that the host is about to answer, by key. */
  readonly #asked = new Map<string, Request>();
  #outcome: Response | undefined;
  #questions = 0;

  constructor(bridge: Sides, first: Request) {
    this.#bridge = bridge;
    this.first = this.#latest = first;
    // In the older era, 0 is the id of `initialize`, and the v1 SDK does not cancel a request with that id. A newer host
    // uses 0 for its first request and for its progress token, which some servers treat as absent.
    this.serverId = first.id || 'valise-call:0';
    this.wantsLog = first.params?._meta?.[LOG_LEVEL] !== undefined;
  }

  get latestId(): Id {
    return this.#latest.id;
  }

  get isAwaited(): boolean {
    return this.#isAwaited;
  }

  /** Whether the server has finished the call. */
  get isOver(): boolean {
    return this.#outcome !== undefined;
  }

  /** The progress token that the server uses. */
  get serverToken(): unknown {
    const token = tokenOf(this.first);
    return token === 0 ? this.serverId : token;
  }

  /** The progress token of the request that the host waits for. */
  get hostToken(): unknown {
    return this.#isAwaited ? tokenOf(this.#latest) : undefined;
  }

  /** Returns the call as the server sees it. */
  request(params: Params | undefined): Request {
    const { serverToken: progressToken } = this;
    const _meta = { ...params?._meta, ...(progressToken !== undefined && { progressToken }) };
    const older = Object.keys(_meta).length > 0 ? { ...params, _meta } : params;
    return { jsonrpc: '2.0', id: this.serverId, method: this.first.method, ...(older && { params: older }) };
  }

  /** Puts a question of the server to the host, immediately or in its next round. */
  ask(question: Request): void {
    this.#waiting.push(question);
    this.#turn();
  }

  /** Whether the server withdrew a question of this call, which is then dropped. */
  withdrew(id: unknown): boolean {
    const before = this.#waiting.length;
    this.#waiting = this.#waiting.filter((question) => question.id !== id);
    if (this.#waiting.length < before) return true;
    for (const [key, question] of this.#asked) if (question.id === id) return this.#asked.delete(key);
    return false;
  }

  /** Handles the host's next request, with answers. A question that it left out is asked again. */
  continue(request: Request): void {
    this.#latest = request;
    this.#isAwaited = true;
    const { inputResponses } = request.params ?? {};
    const answers = isObject(inputResponses) ? inputResponses : {};
    for (const [key, { id, ...question }] of this.#asked) {
      const answer = Object.hasOwn(answers, key) ? answers[key] : undefined;
      if (isObject(answer)) this.#bridge.toServer({ jsonrpc: '2.0', id, result: answer as Result });
      else this.#waiting.push({ id, ...question });
    }
    this.#asked.clear();
    this.#turn();
  }

  /** Records the server's response, and passes it on once the host waits for it. */
  end(response: Response): void {
    this.#outcome = response;
    this.#turn();
  }

  /** Ends the call because the server is gone, and drops its questions. */
  lose(): void {
    this.#waiting = [];
    this.#asked.clear();
    this.#outcome ??= { jsonrpc: '2.0', id: this.serverId, error: SERVER_CHANGED };
  }

  /** Rejects all open questions because the host cancelled the call. */
  cancel(): void {
    for (const { id } of [...this.#waiting.splice(0), ...this.#asked.values()])
      this.#bridge.toServer({ jsonrpc: '2.0', id, error: CALL_CANCELLED });
    this.#asked.clear();
  }

  /** Sends the host the outcome or the waiting questions, if it waits for a response. */
  #turn(): void {
    const outcome = this.#outcome;
    if (!this.#isAwaited || (!outcome && this.#waiting.length === 0)) return;
    this.#isAwaited = false;
    if (!outcome) {
      const inputRequests: Record<string, InputRequest> = {};
      for (const question of this.#waiting.splice(0)) {
        const key = `q${++this.#questions}`;
        this.#asked.set(key, question);
        const { method, params } = question;
        inputRequests[key] = { method, ...(params && { params }) };
      }
      const result = inputRequired({ inputRequests, requestState: this.state });
      this.#bridge.answer(this.#latest, { result });
    } else if ('result' in outcome)
      this.#bridge.answer(this.#latest, { result: newerResult(this.first.method, outcome.result) });
    else this.#bridge.answer(this.#latest, { error: newerError(outcome.error) });
  }
}

function tokenOf({ params }: Request): unknown {
  return params?._meta?.['progressToken'];
}
