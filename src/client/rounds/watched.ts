import { isObject } from '../../json.ts';
import { sha256 } from '../../sha256.ts';
import type { Call } from '../call.ts';
import { targetKey } from '../target.ts';
import type { Round } from './round.ts';

/** Rounds that nobody has gone on with are forgotten here; the store still has them. */
const MOST_WATCHED = 1000;

/** How many are remembered that have one context. */
const MOST_ALIKE = 100;

/** Rounds that whoever made the call answers by itself: finds what is kept of a round when its answer goes out. */
export class Watched {
  /** By the digest of the context: a server may make that long. */
  readonly #kept = new Map<string, readonly string[]>();
  readonly #forgot: (id: string) => void;

  /** `forgot` hears of what had to go for others. */
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

  /** Takes out what is kept under a context: `id` where it is known, or the oldest. */
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

/** By what the answer to a round will be known: by the server's context, or by the call itself where there is none. */
export function contextOf(call: Call, { requestState }: Round & { readonly form: 'input' }): string {
  return requestState ?? nameOf(call);
}

/** The context of the round that a call answers; undefined where it answers none. */
export function answeredBy(call: Call): string | undefined {
  const { requestState, inputResponses } = call.request.params ?? {};
  if (typeof requestState === 'string') return requestState;
  return isObject(inputResponses) ? nameOf(call) : undefined;
}

function nameOf({ connection, request }: Call): string {
  const { _meta, inputResponses, requestState, ...params } = request.params ?? {};
  return sha256(JSON.stringify([targetKey(connection.target), request.method, params]));
}
