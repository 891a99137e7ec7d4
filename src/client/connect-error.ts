import { messageOf, ValiseError } from '../errors.ts';
import { redactUrls } from '../redact-urls.ts';
import { statusOf } from './continuity/lost.ts';

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
  if (chain.some((one) => one instanceof ValiseError)) return error;
  const server = redactUrls(url.href);
  if (chain.some(isUnauthorized))
    return new ValiseError('sign-in-required', `The server ${server} requires a sign-in (HTTP 401).`, {
      next: hasAuth
        ? 'Sign in, then connect again.'
        : 'Connect with valise.http(url, { auth: { redirect } }), or give a valid Authorization header.',
      cause: error,
    });
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

function isUnauthorized(error: unknown): boolean {
  return statusOf(error) === 401 || (error as Error).constructor?.name === 'UnauthorizedError';
}
