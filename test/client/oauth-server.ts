import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

/** What a server says about where to sign in; whatever is left out is as it should be. */
export interface Says {
  /** Of the challenge: the URL of the protected resource metadata. */
  readonly resource_metadata?: string;
  readonly authorization_servers?: readonly string[];
  /** Members of the authorization server's metadata. */
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** An MCP server that lets nobody in, and its authorization server at the same origin, which registers everybody. */
export function oauthServer(origin: string, says: Says = {}): (url: URL, method: string) => Response {
  const prm = '/.well-known/oauth-protected-resource/mcp';
  return (url, method) => {
    const issuer = says.authorization_servers?.[0] ?? origin;
    if (url.pathname === '/mcp')
      return new Response(null, {
        status: 401,
        headers: {
          'www-authenticate': `Bearer resource_metadata="${says.resource_metadata ?? origin + prm}"`,
        },
      });
    if (url.pathname === prm)
      return Response.json({ resource: `${origin}/mcp`, authorization_servers: [issuer] });
    if (/^\/\.well-known\/(oauth-authorization-server|openid-configuration)$/.test(url.pathname))
      return Response.json({
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        registration_endpoint: `${issuer}/register`,
        revocation_endpoint: `${issuer}/revoke`,
        jwks_uri: `${issuer}/jwks`,
        response_types_supported: ['code'],
        grant_types_supported: ['authorization_code', 'refresh_token'],
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['none'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['ES256'],
        ...says.metadata,
      });
    if (url.pathname === '/register' && method === 'POST')
      return Response.json(
        { client_id: 'me', redirect_uris: ['http://127.0.0.1/callback'] },
        { status: 201 },
      );
    if (url.pathname === '/token' && method === 'POST')
      return Response.json({ access_token: 'an-access-token', token_type: 'Bearer', expires_in: 3600 });
    return new Response(null, { status: 404 });
  };
}

/** The same on a port of 127.0.0.1; it ends with the test. `says` gets its origin. */
export async function serveOAuth(says: (origin: string) => Says): Promise<string> {
  const server = createServer(async (request, response) => {
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const answer = oauthServer(origin, says(origin));
    const { status, headers, body } = answer(new URL(origin + request.url), request.method ?? 'GET');
    response.writeHead(status, Object.fromEntries(headers)).end(await new Response(body).text());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
}
