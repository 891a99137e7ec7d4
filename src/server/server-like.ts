import { ValiseError } from '../errors.ts';

/** A server of either SDK major: `McpServer` or `Server`. */
export interface ServerLike {
  // biome-ignore lint/suspicious/noExplicitAny: the majors' transport types differ, and only an open parameter accepts both
  connect(transport: any): Promise<void>;
}

/** The SDK's own `Server`, which an `McpServer` has inside. */
export function protocolOf(server: ServerLike): object {
  return (server as { readonly server?: object }).server ?? server;
}

/** Throws where a server cannot be installed on any more, or is none. */
export function checkInstallable(server: ServerLike): void {
  if (typeof server?.connect !== 'function') {
    throw new ValiseError('not-a-server', 'What Valise is to be installed on is no server of an MCP SDK.', {
      next: 'Call valise.install() with an McpServer or a Server.',
    });
  }
  if ((protocolOf(server) as { readonly transport?: unknown }).transport !== undefined) {
    throw new ValiseError(
      'already-connected',
      'Valise was to be installed on a server that is connected already.',
      {
        next: 'Call valise.install(server) before server.connect(transport).',
      },
    );
  }
}
