import type { ServerLike } from './server-like.ts';

/** What both SDK majors' `Server` has for asking about its handlers. */
interface ProtocolLike {
  assertCanSetRequestHandler?(method: string): void;
  readonly fallbackRequestHandler?: unknown;
}

/** Tells whether a server has a handler for a method; true where it cannot be asked. */
export function handlesOf(server: ServerLike): (method: string) => boolean {
  const protocol = ((server as { readonly server?: unknown }).server ?? server) as ProtocolLike;
  // Asked by an exception, which costs more than remembering.
  let handled: Set<string> | undefined;
  return (method) => {
    if (handled?.has(method)) return true;
    if (!protocol.assertCanSetRequestHandler || protocol.fallbackRequestHandler) return true;
    try {
      protocol.assertCanSetRequestHandler(method);
      return false;
    } catch {
      handled ??= new Set();
      handled.add(method);
      return true;
    }
  };
}
