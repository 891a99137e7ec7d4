import { ValiseError } from '../errors.ts';

/** A server of either SDK major: `McpServer` or `Server`. */
export interface ServerLike {
  connect(transport: unknown): Promise<void>;
}

/** Returns the SDK's own `Server`, which an `McpServer` wraps. */
export function protocolOf(server: ServerLike): object {
  return (server as { readonly server?: object }).server ?? server;
}

/** A mark on the server itself, because weak sets of short-lived objects burden the garbage collector. */
const INSTALLED = Symbol('mcp-valise');

/** Whether it is an `McpServer` or a `Server` of either major. Other objects with a `connect` would never call ours. */
function isSdkServer(server: ServerLike | undefined): boolean {
  if (typeof server?.connect !== 'function') return false;
  const { connect, setRequestHandler } = protocolOf(server) as Readonly<Record<string, unknown>>;
  return typeof connect === 'function' && typeof setRequestHandler === 'function';
}

/** Claims a server for one Valise. Throws if it is not a server, is already connected, or already has a Valise. */
export function claimServer(server: ServerLike): void {
  if (!isSdkServer(server)) {
    const kind = (server as object | undefined)?.constructor?.name ?? typeof server;
    throw new ValiseError(
      'invalid-argument',
      `Valise cannot be installed on ${kind}: it is no server of an MCP SDK.`,
      {
        next: 'Call valise.install() with an McpServer or a Server of @modelcontextprotocol/server or @modelcontextprotocol/sdk. If a framework makes it for you, ask the framework for it before it connects: docs/frameworks.md says how for some.',
      },
    );
  }
  const protocol = protocolOf(server) as { readonly transport?: unknown; [INSTALLED]?: true };
  if (protocol.transport !== undefined) {
    throw new ValiseError(
      'already-connected',
      'Valise was to be installed on a server that is connected already.',
      { next: 'Call valise.install(server) before server.connect(transport).' },
    );
  }
  // Two Valises would both answer for the same capabilities, and give the client conflicting information.
  if (protocol[INSTALLED]) {
    throw new ValiseError('already-connected', 'A Valise is installed on this server already.', {
      next: 'Install one Valise on each server, once.',
    });
  }
  protocol[INSTALLED] = true;
}
