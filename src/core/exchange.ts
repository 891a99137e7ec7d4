/** Why nobody waits for a response any longer. A caller that has timed out may want it later. */
export type AbortReason = 'cancelled' | 'timeout' | 'closed';

/** One request and its response, on either side. */
export interface Exchange<Request> {
  /** `in`: the peer asks, and the SDK here answers. `out`: the SDK here asks, and the peer answers. */
  readonly direction: 'in' | 'out';
  readonly request: Request;
  readonly method: string;
  /** Aborted once nobody waits for the response, with an {@link AbortReason}. */
  readonly signal: AbortSignal;
}
