import { isDeepStrictEqual } from 'node:util';
import { isObject } from 'mcp-valise/internal';
import type { Id, Params, Request, Response } from 'mcp-valise/wire';
import { goesOn } from './newer-shapes.ts';

/** A call in which the server asked something, and its questions. */
export interface AskingCall {
  readonly call: { readonly method: string; readonly params?: Params | undefined };
  readonly inputRequests: Readonly<Record<string, unknown>>;
}

/** Receives a call that the host cancelled while it was being asked, and the reason. */
export type TakenBack = (asking: AskingCall, reason: unknown) => void;

interface Turn extends AskingCall {
  readonly call: Request;
  readonly state: unknown;
}

/** Above this number, the oldest calls that a host never came back to are forgotten. */
const MOST_CALLS = 1000;

/**
 * Tracks the questions that a 2026-07-28 server asks a host of the same era. The calls themselves pass through. If the host
 * cancels one, its questions must be found, because nobody should answer them afterwards.
 */
export class AskedCalls {
  readonly #takenBack: TakenBack;
  /** Keyed by the request that was answered with questions, then by the retry once the host has sent one. */
  readonly #turns = new Map<Id, Turn>();

  constructor(takenBack: TakenBack) {
    this.#takenBack = takenBack;
  }

  /** Records the server's response to a request of the host. */
  answered(request: Request, response: Response): void {
    this.#turns.delete(request.id);
    if (!('result' in response) || response.result['resultType'] !== 'input_required') return;
    const { inputRequests, requestState: state } = response.result;
    this.#turns.set(request.id, {
      call: request,
      inputRequests: isObject(inputRequests) ? inputRequests : {},
      state,
    });
    const [oldest] = this.#turns.size > MOST_CALLS ? this.#turns.keys() : [];
    if (oldest !== undefined) this.#turns.delete(oldest);
  }

  /** Records a request of the host, which may carry answers. */
  goesOn(request: Request): void {
    if (this.#turns.size === 0 || !goesOn(request)) return;
    const [id, turn] = [...this.#turns].find(([, each]) => isAnswered(each, request)) ?? [];
    if (id === undefined || !turn) return;
    this.#turns.delete(id);
    this.#turns.set(request.id, turn);
  }

  /** Records that the host cancelled a request. */
  cancelled(id: Id, reason: unknown): void {
    const turn = this.#turns.get(id);
    if (!turn) return;
    this.#turns.delete(id);
    this.#takenBack(turn, reason);
  }
}

/** Whether the request answers these questions. A server may ask without a `requestState`. */
function isAnswered({ call, state }: Turn, { method, params }: Request): boolean {
  if (method !== call.method || params?.['requestState'] !== state) return false;
  return state !== undefined || isDeepStrictEqual(argumentsOf(params), argumentsOf(call.params));
}

/** Returns the params of a call without the fields that differ between its requests. */
export function argumentsOf(params: Params | undefined): Params {
  const { _meta, inputResponses, requestState, ...rest } = params ?? {};
  return rest;
}
