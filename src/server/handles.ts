import { protocolOf, type ServerLike } from './server-like.ts';

/** The part of both SDK majors' `Server` that tells about its handlers. */
interface ProtocolLike {
  assertCanSetRequestHandler?(method: string): void;
  readonly fallbackRequestHandler?: unknown;
  /** Not public, so it is only a shortcut for what the assertion reports with an exception. */
  readonly _requestHandlers?: unknown;
}

/** Whether a server has a handler for a method. Returns true if the server cannot tell. */
export function handles(server: ServerLike, method: string): boolean {
  const protocol: ProtocolLike = protocolOf(server);
  if (!protocol.assertCanSetRequestHandler || protocol.fallbackRequestHandler) return true;
  const { _requestHandlers: handlers } = protocol;
  if (handlers instanceof Map && handlers.has(method)) return true;
  try {
    protocol.assertCanSetRequestHandler(method);
    return false;
  } catch {
    return true;
  }
}
