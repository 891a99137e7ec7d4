import { timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { seconds } from '../../core/duration.ts';
import { ValiseError } from '../../core/errors.ts';
import { MARK } from '../../store/kit/collection.ts';
import { withLease } from '../../store/kit/lease.ts';
import type { CredentialCache } from './credentials.ts';
import type { EndpointGuard } from './endpoints.ts';
import type { AuthOptions } from './options.ts';

/** Sends the user to the sign-in page and receives the response. */
export class SignIn {
  readonly #options: AuthOptions;
  readonly #endpoints: EndpointGuard;
  readonly #timeout: number;
  #loopback: Loopback | undefined;
  #preparing: Promise<void> | undefined;

  constructor(options: AuthOptions, endpoints: EndpointGuard) {
    this.#options = options;
    this.#endpoints = endpoints;
    this.#timeout = seconds(options.timeout ?? '5m');
  }

  /** The address that the user comes back to. Its port may change each time: {@link prepare} decides. */
  get redirectUrl(): string {
    return String(this.#options.redirectUrl ?? this.#loopback?.url ?? 'http://127.0.0.1/callback');
  }

  /** Prepares the listener for the user's return, at the registered address if possible. */
  prepare(registered: string | undefined): Promise<void> {
    if (this.#options.redirectUrl !== undefined || this.#loopback) return Promise.resolve();
    this.#preparing ??= this.#listen(registered).finally(() => {
      this.#preparing = undefined;
    });
    return this.#preparing;
  }

  async #listen(registered: string | undefined): Promise<void> {
    const { port } = this.#options;
    if (port !== undefined) this.#loopback = await listenOnLoopback(port);
    else
      this.#loopback = await listenOnLoopback(Number(registered && new URL(registered).port)).catch(() =>
        listenOnLoopback(0),
      );
  }

  /** Shows the page and waits for the user's response, until `signal` aborts. */
  async ask(page: URL, signal: AbortSignal): Promise<URLSearchParams> {
    this.#endpoints.checkPage(page);
    if (page.searchParams.get('redirect_uri') !== this.redirectUrl) throw strangerError();
    const state = page.searchParams.get('state') ?? '';
    const stop = new AbortController();
    try {
      const answer = await Promise.race([
        this.#loopback?.answer(state) ?? never,
        this.#show(page),
        this.#tooLate(stop.signal),
        left(signal, stop.signal),
      ]);
      // A response that the host received itself has not been checked yet.
      if (answer.get('state') !== state) throw strangerError();
      const error = answer.get('error');
      if (error !== null) throw refusedError(error);
      if (!answer.get('code')) throw strangerError();
      return answer;
    } finally {
      stop.abort();
    }
  }

  async #show(page: URL): Promise<URLSearchParams> {
    const back = await this.#options.redirect(new URL(page));
    return typeof back === 'string' || back instanceof URL ? new URL(back).searchParams : never;
  }

  #tooLate(signal: AbortSignal): Promise<never> {
    return new Promise((_, reject) => {
      const timer = setTimeout(() => {
        reject(
          new ValiseError('timeout', `Nobody signed in within ${this.#timeout} s.`, {
            next: 'Try again; the option timeout gives more time.',
          }),
        );
      }, this.#timeout * 1000);
      signal.addEventListener('abort', () => clearTimeout(timer), { once: true });
    });
  }

  /** Closes the listener. */
  close(): void {
    this.#loopback?.close();
    this.#loopback = undefined;
  }
}

/** Rejects with the reason of `signal`, unless `over` aborts first. */
function left(signal: AbortSignal, over: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true, signal: over });
  });
}

const never = new Promise<never>(() => {});

/** Returns the error for a connection that closed before the user had signed in. */
export function leftError(): ValiseError {
  return new ValiseError('sign-in-failed', 'The connection was closed before the user had signed in.', {
    next: 'Connect again.',
  });
}

const REFUSED = 'sign-in-refused';
const AFTER_REFUSAL = 'Try again, or ask the operator of the server for access.';

function refusedError(error: string): ValiseError {
  const reason = /^[\w.-]{1,64}$/.test(error) ? error : 'an unknown reason';
  return new ValiseError(REFUSED, `The authorization server did not sign you in: ${reason}.`, {
    next: AFTER_REFUSAL,
  });
}

/** Whether the user or the authorization server has refused. */
export function isRefusal(error: unknown): boolean {
  return error instanceof ValiseError && error.code === REFUSED;
}

/** Returns the error for a process that waited for another one's sign-in, which was refused. */
function refusedElsewhereError(): ValiseError {
  return new ValiseError(REFUSED, 'The sign-in that another process started was refused.', {
    next: AFTER_REFUSAL,
  });
}

/** Returns the error for a response that does not belong to the sign-in. */
export function strangerError(): ValiseError {
  return new ValiseError('sign-in-failed', 'The response does not belong to the sign-in that was started.', {
    next: 'Try again.',
  });
}

/** Returns the error for a server that rejected the token of a new sign-in with this status. */
export function inVainError(status: number): ValiseError {
  return new ValiseError('sign-in-failed', `The server rejected the new access token (${status}).`, {
    next: 'Ask the operator of the server. Signing in again does not help.',
  });
}

/** How long waiting processes can find the user's refusal, in seconds. */
const REFUSAL = 60;

/**
 * Signs in while no other process does so for the same connection, so that several hosts that start together show one page.
 * Waiting processes call `elsewhere`, and use the resulting tokens. If there are none, it is their turn, unless the user
 * has refused: the refusal applies to them too.
 */
export async function signInOnce(
  credentialCache: CredentialCache,
  signIn: () => Promise<void>,
  { signal, elsewhere }: { readonly signal: AbortSignal; elsewhere(): void },
): Promise<void> {
  const { store, key } = credentialCache.keeper;
  const refusal = async (): Promise<string | undefined> => (await store.get(`${key}/refused`))?.version;
  const refused = async (error: unknown): Promise<never> => {
    if (isRefusal(error)) await store.put(`${key}/refused`, MARK, { ttl: REFUSAL }).catch(() => undefined);
    throw error;
  };
  const before = await refusal();
  const alone = async (): Promise<void> => {
    if (await isSignedIn(credentialCache)) return;
    const latest = await refusal();
    if (latest !== undefined && latest !== before) throw refusedElsewhereError();
    await signIn().catch(refused);
  };
  let isTold = false;
  const meanwhile = async (): Promise<true | undefined> => {
    if (await isSignedIn(credentialCache)) return true;
    if (!isTold) elsewhere();
    isTold = true;
    return undefined;
  };
  await withLease<unknown>(store, `${key}/sign-in`, alone, { wait: Infinity, signal, meanwhile });
}

async function isSignedIn(credentialCache: CredentialCache): Promise<boolean> {
  const { tokens } = await credentialCache.reload();
  return tokens !== undefined && credentialCache.isGood(tokens);
}

const PATH = '/callback';

/** A listener on this machine that a sign-in page sends the user back to. */
export interface Loopback {
  readonly url: string;
  readonly port: number;
  /** Resolves with the response to the sign-in with this `state`. Other requests are rejected and have no effect. */
  answer(state: string): Promise<URLSearchParams>;
  close(): void;
}

/** Listens on 127.0.0.1, on any free port if `port` is 0. */
async function listenOnLoopback(port: number): Promise<Loopback> {
  let waiting: { readonly state: string; resolve(answer: URLSearchParams): void } | undefined;
  const server = createServer((request, response) => {
    const target = `${origin}${request.url}`;
    // Browsers send a path. Anything else, such as `*` or a full URL, does not come from a sign-in page.
    if (!request.url?.startsWith('/') || !URL.canParse(target))
      return say(response, 400, 'This is not a path.');
    const { host, pathname, searchParams } = new URL(target);
    // A page that reaches this listener under another host name is not the one that sent the user back.
    if (request.headers.host !== host || request.method !== 'GET' || pathname !== PATH)
      return say(response, 404, 'There is nothing here.');
    if (!waiting || !isSame(searchParams.get('state') ?? '', waiting.state))
      return say(response, 400, 'This is not the sign-in that was asked for. Start again in your program.');
    waiting.resolve(searchParams);
    waiting = undefined;
    say(
      response,
      200,
      searchParams.has('code')
        ? 'You are signed in. You can close this window.'
        : 'You are not signed in. You can close this window.',
    );
  });
  server.unref();
  const at = await listening(server, port);
  const origin = `http://127.0.0.1:${at}`;
  return {
    url: `${origin}${PATH}`,
    port: at,
    answer: (state) =>
      new Promise((resolve) => {
        waiting = { state, resolve };
      }),
    close() {
      server.close();
      server.closeIdleConnections();
    },
  };
}

async function listening(server: Server, port: number): Promise<number> {
  try {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  } catch (cause) {
    throw new ValiseError(
      'sign-in-failed',
      `Port ${port} of 127.0.0.1 cannot be listened on for the sign-in.`,
      {
        next: 'Free it, or choose another one with the option port (--redirect-port).',
        cause,
      },
    );
  }
  return (server.address() as AddressInfo).port;
}

function say(response: ServerResponse, status: number, words: string): void {
  response
    .writeHead(status, {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': "default-src 'none'",
      'referrer-policy': 'no-referrer',
      connection: 'close',
    })
    .end(`<!doctype html><title>Sign-in</title><p>${words}</p>\n`);
}

function isSame(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}
