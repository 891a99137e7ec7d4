import type { FetchLike } from '../../link/edge-fetch.ts';

/** How long identical registration requests share one registration, in milliseconds. */
const SAME_FOR = 5000;

/**
 * Returns a `fetch` that registers a client only once if several requests of a connection find that it is necessary, as
 * v1's stream and call do. Their registrations are identical, and the others would stay unused.
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
