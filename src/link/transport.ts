/** The type of a method. Unlike the type of a function, it accepts the parameter types of either SDK major. */
interface Method {
  receive(message: unknown, extra?: unknown): void;
}

/**
 * The part of a transport that both SDK majors share. It is structural, so that Valise depends on neither of them, and
 * uses method syntax, so that the stricter types of either major fit.
 */
export interface TransportLike {
  start(): Promise<void>;
  send(message: unknown, options?: unknown): Promise<void>;
  close(): Promise<void>;
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  onmessage?: Method['receive'] | undefined;
  sessionId?: string | undefined;
}

/** Returns the standard input that a server's stdio transport of either SDK major reads, or undefined for other transports. */
export function stdinOf(transport: TransportLike): unknown {
  // Property names in both SDK majors: of standard input, and of v2's channel over it.
  const known = transport as TransportLike & {
    readonly _stdin?: unknown;
    readonly _wire?: { readonly _stdin?: unknown };
  };
  return known._stdin ?? known._wire?._stdin;
}
