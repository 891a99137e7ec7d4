/** The names of scopes, by RFC 6749: nothing that ends the header they stand in. */
const NAME = /^[\x21\x23-\x5b\x5d-\x7e]+$/;
const SCOPE = /scope=(?:"([^"]*)"|([^\s,]+))/;

/** True where the server wants a token that allows more. */
export function isStepUp({ status, headers }: Response): boolean {
  return status === 403 && /insufficient_scope/.test(headers.get('www-authenticate') ?? '');
}

/** What the server wants the token to allow. */
export function wantedIn({ headers }: Response): readonly string[] {
  const [, quoted, plain = ''] = SCOPE.exec(headers.get('www-authenticate') ?? '') ?? [];
  return namesIn(quoted ?? plain);
}

/**
 * The server's answer with what the token allows already among what is wanted. A server names what the one call needs; who
 * asks for that alone, as v1 does, loses what there was, and has the user back at the page with the next call.
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
