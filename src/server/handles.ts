import { protocolOf, type ServerLike } from './server-like.ts';

/** What both SDK majors' `Server` has for asking about its handlers. */
interface ProtocolLike {
  assertCanSetRequestHandler?(method: string): void;
  readonly fallbackRequestHandler?: unknown;
  /** Not public, so only a quick way to what the assertion tells by an exception. */
  readonly _requestHandlers?: unknown;
}

/** Tells whether a server has a handler for a method; true where it cannot be asked. */
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
