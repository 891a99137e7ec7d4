import { messageOf, ValiseError } from '../../core/errors.ts';
import { redactUrls } from '../../core/redact-urls.ts';

/** The error codes of Node, its TLS and its fetch for a server that could not be reached. */
const UNREACHED =
  /^(ECONN(REFUSED|RESET|ABORTED)|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EPROTO|HPE_|ERR_SSL_|ERR_TLS_|UND_ERR_)|CERT|SELF_SIGNED|UNABLE_TO_/;

const WRAPPING = new Set<unknown>(['server-unreachable', 'sign-in-required']);

/** Whether {@link connectError} created an error. The original error of the SDK or of `fetch` is its cause. */
export function isConnectError(error: unknown): error is ValiseError {
  return error instanceof ValiseError && WRAPPING.has(error.code);
}

/** Returns an error and its causes, outermost first. The SDKs keep some causes in `data`. */
export function causesOf(error: unknown): unknown[] {
  const chain: unknown[] = [];
  for (let at = error; at !== undefined && at !== null && chain.length < 10 && !chain.includes(at); ) {
    chain.push(at);
    const { cause, data, errors } = at as {
      readonly cause?: unknown;
      readonly data?: { readonly cause?: unknown };
      readonly errors?: unknown;
    };
    // If a name has several addresses, Node tries them all. The first failure is as good as any.
    const first = Array.isArray(errors) ? errors[0] : undefined;
    const inData = data?.cause instanceof Error ? data.cause : undefined;
    at = cause instanceof Error ? cause : (inData ?? (first instanceof Error ? first : undefined));
  }
  return chain;
}

/** Explains why the connection failed, if an error of the SDK or of `fetch` does not. Returns other errors unchanged. */
export function connectError(error: unknown, url: URL, hasAuth: boolean): unknown {
  const chain = causesOf(error);
  // The SDKs wrap errors of `fetch` while they negotiate the version.
  const own = chain.find((one) => one instanceof ValiseError);
  if (own) return own;
  const server = redactUrls(url.href);
  if (chain.some((one) => statusOf(one) === 401)) return signInRequiredError(url, hasAuth, error);
  const innermost = chain.at(-1);
  const { code } = (innermost ?? {}) as { readonly code?: unknown };
  const isUnreached = UNREACHED.test(String(code)) || chain.some((one) => messageOf(one) === 'fetch failed');
  if (!isUnreached) return error;
  const reason = redactUrls(messageOf(innermost)).replace(/\.$/, '');
  return new ValiseError('server-unreachable', `The server ${server} cannot be reached: ${reason}.`, {
    next: 'Check that it is running, and that the URL is right.',
    cause: error,
  });
}

/** Returns the error for a server that requires a sign-in. */
export function signInRequiredError(url: URL, hasAuth: boolean, cause?: unknown): ValiseError {
  return new ValiseError(
    'sign-in-required',
    `The server ${redactUrls(url.href)} requires a sign-in (HTTP 401).`,
    {
      next: hasAuth
        ? 'Sign in, then connect again.'
        : 'Pass the option auth: { redirect } to connect, or a valid Authorization header.',
      cause,
    },
  );
}

/** Whether an error says that the user has to sign in. */
export function isSignInRequired(error: unknown): boolean {
  return error instanceof ValiseError && error.code === 'sign-in-required';
}

/** The texts of servers that return 400 instead of 404 for an unknown session, or for a protocol version they have dropped. */
const NO_SESSION = /session.?id|no valid session|session not found|not initialized/i;
const NO_VERSION = /(unsupported|invalid|unknown).{0,16}protocol.?version/i;

/** Why the session could not be resumed. */
export type LostReason = 'session-lost' | 'version';

/** Returns why a server rejected a call, if a new `initialize` can help. Returns undefined if it cannot. */
export function whyLost(error: unknown, sessionId: string | undefined): LostReason | undefined {
  const status = statusOf(error);
  if (status === 404 && sessionId !== undefined) return 'session-lost';
  if (status !== 400) return undefined;
  const text = (error as Error).message;
  if (NO_VERSION.test(text)) return 'version';
  return NO_SESSION.test(text) ? 'session-lost' : undefined;
}

/** Whether a server rejects every offered version, as servers that know only 2026-07-28 do for `initialize`. */
export function isOtherVersion(error: unknown): boolean {
  return NO_VERSION.test(messageOf(error));
}

/** Returns the error for a server that has changed its protocol version. The SDKs' clients cannot change theirs while connected. */
export function versionGoneError(protocolVersion: string, cause: unknown): ValiseError {
  return new ValiseError(
    VERSION_GONE,
    `The server no longer supports ${protocolVersion}, the protocol version of this connection.`,
    { next: 'Connect again, with a client that supports a version of the server.', cause },
  );
}

/** The code of {@link versionGoneError}. */
export const VERSION_GONE = 'other-version';

/** Returns the HTTP status in an error of either SDK major. */
export function statusOf(error: unknown): number | undefined {
  const { code, data } = (error ?? {}) as {
    readonly code?: unknown;
    readonly data?: { readonly status?: unknown };
  };
  if (typeof data?.status === 'number') return data.status;
  return typeof code === 'number' && code >= 100 && code < 600 ? code : undefined;
}
