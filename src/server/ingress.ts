import { AsyncLocalStorage } from 'node:async_hooks';
import type { Peer } from './peer.ts';

/** What Valise's own HTTP edge knows about a request before any transport sees it. */
export interface Ingress {
  /** A transport session that is proved by its seal, where the SDK's transport keeps none. */
  readonly transportSession?: string;
  /** The client as that session's `initialize` introduced it. */
  readonly peer?: Peer;
}

const ingress = new AsyncLocalStorage<Ingress>();

/** What the edge around the present request knows; undefined where there is no edge of ours. */
export function currentIngress(): Ingress | undefined {
  return ingress.getStore();
}

/** Runs an SDK handler with what the edge knows. */
export function runWithIngress<T>(known: Ingress, handle: () => T): T {
  return ingress.run(known, handle);
}
