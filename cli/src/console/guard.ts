import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/** Why a request is refused: the status, and a sentence for whoever reads it. */
export interface Refusal {
  readonly status: 400 | 401 | 403 | 421;
  readonly what: string;
}

/** The parts of a request that decide whether it may pass. */
export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
}

/** Decides who may use a console: whoever exchanged its one-time token, from the console's own origin. */
export class Guard {
  readonly #port: number;
  readonly #token = randomBytes(32).toString('base64url');
  readonly #secret = randomBytes(32).toString('base64url');
  #isUsed = false;

  constructor(port: number) {
    this.#port = port;
  }

  /** The address to open, with the token, which works once. */
  get url(): string {
    return `http://127.0.0.1:${this.#port}/?token=${this.#token}`;
  }

  /** Refuses other hosts (DNS rebinding) and other origins. Applies to every request, before anything else. */
  foreign({ method, headers }: Asked): Refusal | undefined {
    const hosts = ['127.0.0.1', 'localhost', '[::1]'].map((name) => `${name}:${this.#port}`);
    const { host = '', origin } = headers;
    if (!hosts.includes(host))
      return { status: 421, what: 'This console answers only under its own address on this machine.' };
    if (origin !== undefined ? origin !== `http://${host}` : method !== 'GET' && method !== 'HEAD')
      return { status: 403, what: 'This request does not come from the console’s own page.' };
    const site = headers['sec-fetch-site'];
    const isNavigation = headers['sec-fetch-mode'] === 'navigate' && method === 'GET';
    if (site !== undefined && site !== 'same-origin' && site !== 'none' && !isNavigation)
      return { status: 403, what: 'This request comes from another site.' };
    return undefined;
  }

  /** Refuses whoever has no cookie of this console. */
  stranger({ headers }: Asked): Refusal | undefined {
    const cookies = (headers.cookie ?? '').split(';').map((each) => each.trim());
    const own = `${this.#cookieName}=`;
    const isOurs = cookies.some((each) => each.startsWith(own) && same(each.slice(own.length), this.#secret));
    return isOurs
      ? undefined
      : {
          status: 401,
          what: 'Open the console with the link that `valise console` printed. It works once; run the command again for another.',
        };
  }

  /** Exchanges the token for a cookie, once. Returns the `Set-Cookie` header, or undefined if the token is not good. */
  exchange({ method, query }: Asked): string | undefined {
    const given = query.get('token');
    if (method !== 'GET' || given === null || this.#isUsed || !same(given, this.#token)) return undefined;
    this.#isUsed = true;
    return `${this.#cookieName}=${this.#secret}; Path=/; HttpOnly; SameSite=Strict`;
  }

  /** Cookies are shared between ports, so that two consoles need two names. */
  get #cookieName(): string {
    return `valise-console-${this.#port}`;
  }
}

/** Compares two texts in constant time. */
function same(one: string, other: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}
