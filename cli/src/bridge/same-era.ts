import { isDeepStrictEqual } from 'node:util';
import { isObject, isRequest, type Notification, type Request, type Response } from 'mcp-valise/internal';
import { argumentsOf, isContinuation } from './shapes.ts';
import type { AskingCall, Sides, Translation } from './translation.ts';

/** Requests to people or models. They take time, and a host can cancel the call meanwhile. */
const QUESTIONS = new Set(['elicitation/create', 'sampling/createMessage']);

/** Above this number, the oldest calls that a host never came back to are forgotten. */
const MAX_CALLS = 1000;

interface Asking extends AskingCall {
  readonly call: Request;
  readonly state: unknown;
}

/** Passes every message through unchanged between a host and a server of the same era. */
export class SameEra implements Translation {
  readonly #bridge: Sides;
  /**
   * Calls that a newer server answered with questions, by the id of that request, and by the id of its continuation once
   * the host has sent one. If the host cancels it, their answers are no longer needed.
   */
  readonly #asking = new Map<unknown, Asking>();

  constructor(bridge: Sides) {
    this.#bridge = bridge;
  }

  request(request: Request): void {
    if (isContinuation(request)) this.#continued(request);
    this.#bridge.request(this, request, request, (response) => {
      this.#answered(request, response);
      this.#bridge.toHost(response);
    });
  }

  notification(message: Notification): void {
    // Sent before the questions are rejected, so that the server does not continue the call because of the rejection.
    this.#bridge.toServer(message);
    if (message.method !== 'notifications/cancelled') return;
    const { requestId, reason } = message.params ?? {};
    const calls = this.#bridge.calls();
    const call = calls.find(({ id }) => id === requestId);
    // Servers of the older era that are built with the SDKs do not withdraw the questions of a cancelled call.
    if (call)
      this.#bridge.questions.cancelled(
        call,
        calls.filter((other) => other !== call),
      );
    const asking = this.#asking.get(requestId);
    if (this.#asking.delete(requestId) && asking) this.#bridge.takenBack(asking, reason);
  }

  fromServer(message: Request | Notification): void {
    const isQuestion = isRequest(message) && QUESTIONS.has(message.method);
    this.#bridge.questions.pass(message, isQuestion ? this.#bridge.calls() : []);
  }

  leave(): void {
    // Only questions tie a host to a server, and those are withdrawn.
  }

  #answered(call: Request, response: Response): void {
    this.#asking.delete(call.id);
    if (!('result' in response) || response.result['resultType'] !== 'input_required') return;
    const { inputRequests, requestState: state } = response.result;
    this.#asking.set(call.id, { call, inputRequests: isObject(inputRequests) ? inputRequests : {}, state });
    const [oldest] = this.#asking.size > MAX_CALLS ? this.#asking.keys() : [];
    if (oldest !== undefined) this.#asking.delete(oldest);
  }

  #continued(request: Request): void {
    const [id, asking] = [...this.#asking].find(([, each]) => isContinuedBy(each, request)) ?? [];
    if (!asking) return;
    this.#asking.delete(id);
    this.#asking.set(request.id, asking);
  }
}

/** Whether the request answers these questions. A server may ask without a `requestState`. */
function isContinuedBy({ call, state }: Asking, { method, params }: Request): boolean {
  if (method !== call.method || params?.['requestState'] !== state) return false;
  return state !== undefined || isDeepStrictEqual(argumentsOf(params), argumentsOf(call.params));
}
