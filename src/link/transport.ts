/**
 * The part of a transport that both SDK majors share. Written structurally, so that Valise needs neither of them,
 * and with method syntax, so that either major's stricter types fit.
 */
export interface TransportLike {
  start(): Promise<void>;
  // biome-ignore lint/suspicious/noExplicitAny: the majors' message and option types differ, and only an open parameter accepts both
  send(message: any, options?: any): Promise<void>;
  close(): Promise<void>;
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: as for `send`
  onmessage?: ((message: any, extra?: any) => void) | undefined;
  sessionId?: string | undefined;
}
