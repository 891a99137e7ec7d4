/** The type of a method: unlike that of a function, it takes the types of either major for its parameters. */
interface Method {
  receive(message: unknown, extra?: unknown): void;
}

/**
 * The part of a transport that both SDK majors share. Written structurally, so that Valise needs neither of them,
 * and with method syntax, so that either major's stricter types fit.
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
