import { isDeepStrictEqual } from 'node:util';
import { isObject } from 'mcp-valise/internal';
import type { Id, Params, Request, Response } from 'mcp-valise/wire';
import { goesOn } from './newer-shapes.ts';

/** A call that asks, and its questions. */
export interface AskingCall {
  readonly call: { readonly method: string; readonly params?: Params | undefined };
  readonly inputRequests: Readonly<Record<string, unknown>>;
}

/** Hears of a call that the host has cancelled while it was asked, and why. */
export type TakenBack = (asking: AskingCall, reason: unknown) => void;

interface Turn extends AskingCall {
  readonly call: Request;
  readonly state: unknown;
}

/** Calls that a host never came back to are forgotten when there are more than this. */
const MOST_CALLS = 1000;

/**
 * What a host of 2026-07-28 is asked by a server of its era. The calls pass through; only where the host gives one up, its
 * questions must be found, since nobody is to answer them any more.
 */
export class AskedCalls {
  readonly #takenBack: TakenBack;
  /** By the request that was answered with questions, and once the host has sent the call again, by that. */
  readonly #turns = new Map<Id, Turn>();

  constructor(takenBack: TakenBack) {
    this.#takenBack = takenBack;
  }

  /** The server has answered a request of the host. */
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

  /** The host sends a request; it may bring answers. */
  goesOn(request: Request): void {
    if (this.#turns.size === 0 || !goesOn(request)) return;
    const [id, turn] = [...this.#turns].find(([, each]) => isAnswered(each, request)) ?? [];
    if (id === undefined || !turn) return;
    this.#turns.delete(id);
    this.#turns.set(request.id, turn);
  }

  /** The host has cancelled a request. */
  cancelled(id: Id, reason: unknown): void {
    const turn = this.#turns.get(id);
    if (!turn) return;
    this.#turns.delete(id);
    this.#takenBack(turn, reason);
  }
}

/** True for the request that answers these questions. A server may ask without a state. */
function isAnswered({ call, state }: Turn, { method, params }: Request): boolean {
  if (method !== call.method || params?.['requestState'] !== state) return false;
  return state !== undefined || isDeepStrictEqual(argumentsOf(params), argumentsOf(call.params));
}

/** The params of a call without what each of its requests has of its own. */
export function argumentsOf(params: Params | undefined): Params {
  const { _meta, inputResponses, requestState, ...rest } = params ?? {};
  return rest;
}
