import { isObject } from '../../json.ts';
import { sha256 } from '../../sha256.ts';
import type { Call } from '../call.ts';
import { targetKey } from '../target.ts';
import type { Round } from './round.ts';

/** The maximum number of contexts remembered here. The store still has the rounds that are forgotten. */
const MOST_WATCHED = 1000;

/** The maximum number of rounds remembered with the same context. */
const MOST_ALIKE = 100;

/** Finds the stored round when its answer is sent, for rounds that the caller answers by itself. */
export class Watched {
  /** Keyed by the digest of the context, because a server may send a long one. */
  readonly #kept = new Map<string, readonly string[]>();
  readonly #forgot: (id: string) => void;

  /** Calls `forgot` for each round that is evicted. */
  constructor(forgot: (id: string) => void) {
    this.#forgot = forgot;
  }

  add(context: string, id: string): void {
    const key = sha256(context);
    const alike = [...(this.#kept.get(key) ?? []), id];
    this.#kept.set(key, alike.slice(-MOST_ALIKE));
    alike.slice(0, -MOST_ALIKE).forEach(this.#forgot);
    if (this.#kept.size <= MOST_WATCHED) return;
    const [oldest] = this.#kept;
    if (!oldest) return;
    this.#kept.delete(oldest[0]);
    oldest[1].forEach(this.#forgot);
  }

  /** Removes and returns a round with this context: `id` if it is given, or else the oldest. */
  take(context: string, id?: string): string | undefined {
    const key = sha256(context);
    const ids = this.#kept.get(key) ?? [];
    const taken = id ?? ids[0];
    const rest = ids.filter((other) => other !== taken);
    if (rest.length > 0) this.#kept.set(key, rest);
    else this.#kept.delete(key);
    return taken;
  }
}

/** Returns the key that identifies the answer to a round: the server's context, or a digest of the call if there is none. */
export function contextOf(call: Call, { requestState }: Round & { readonly form: 'input' }): string {
  return requestState ?? nameOf(call);
}

/** Returns the context of the round that a call answers. Returns undefined if it answers none. */
export function answeredBy(call: Call): string | undefined {
  const { requestState, inputResponses } = call.request.params ?? {};
  if (typeof requestState === 'string') return requestState;
  return isObject(inputResponses) ? nameOf(call) : undefined;
}

function nameOf({ connection, request }: Call): string {
  const { _meta, inputResponses, requestState, ...params } = request.params ?? {};
  return sha256(JSON.stringify([targetKey(connection.target), request.method, params]));
}
