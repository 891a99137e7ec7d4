import type { FetchLike } from '../../link/edge-fetch.ts';

/** How long, in milliseconds, who asks for the same registration gets the one that was made. */
const SAME_FOR = 5000;

/**
 * A `fetch` that registers a client once where several requests of one connection find out together that it must be done,
 * as v1's stream and call do: what they register is the same, and nobody would use the others.
 */
export function registerOnce(base: FetchLike): FetchLike {
  const made = new Map<string, Promise<Response>>();
  return async (url, init = {}) => {
    const { method, body } = init;
    if (method !== 'POST' || typeof body !== 'string' || !body.includes('"redirect_uris"'))
      return base(url, init);
    const key = `${url} ${body}`;
    const forget = (): void => void made.delete(key);
    let registering = made.get(key);
    if (!registering) {
      made.set(key, (registering = base(url, init)));
      registering.then(({ ok }) => (ok ? setTimeout(forget, SAME_FOR).unref() : forget()), forget);
    }
    return (await registering).clone();
  };
}
