/** Scope names according to RFC 6749, without characters that would end the header value. */
const NAME = /^[\x21\x23-\x5b\x5d-\x7e]+$/;
const SCOPE = /scope=(?:"([^"]*)"|([^\s,]+))/;

/** Whether the server requires a token with more scopes. */
export function isStepUp({ status, headers }: Response): boolean {
  return status === 403 && /insufficient_scope/.test(headers.get('www-authenticate') ?? '');
}

/** Returns the scopes that the server requires. */
export function wantedIn({ headers }: Response): readonly string[] {
  const [, quoted, plain = ''] = SCOPE.exec(headers.get('www-authenticate') ?? '') ?? [];
  return namesIn(quoted ?? plain);
}

/**
 * Adds the scopes that the token already has to those that the server requires. A server names only the scopes of one call.
 * A client that requests only those, as v1 does, loses the others, and the next call sends the user to the page again.
 */
export function withGranted(response: Response, granted: string | undefined): Response {
  const wanted = wantedIn(response);
  if (wanted.length === 0) return response;
  const { status, statusText } = response;
  const headers = new Headers(response.headers);
  const union = [...new Set([...namesIn(granted ?? ''), ...wanted])].join(' ');
  const challenge = headers.get('www-authenticate') ?? '';
  headers.set(
    'www-authenticate',
    challenge.replace(SCOPE, () => `scope="${union}"`),
  );
  return new Response(response.body, { status, statusText, headers });
}

function namesIn(scope: string): readonly string[] {
  return scope.split(' ').filter((name) => NAME.test(name));
}
