import { sha256 } from '../../sha256.ts';

/** The owner of a connection: the server's full URL, and the user if the host tells users apart. */
export interface ConnectionId {
  readonly target: string;
  readonly principal: string;
}

type Kind = 'connection' | 'credentials' | 'account';

/**
 * Returns the store key for data of a connection. It uses digests, so that readers of the store's keys do not learn whose
 * they are.
 */
export function keyOf(kind: Kind, { target, principal }: ConnectionId): string {
  return `${prefixOf(kind, principal)}${sha256(target).slice(0, 24)}`;
}

/** Returns the prefix of all keys of a principal. */
export function prefixOf(kind: Kind, principal: string): string {
  return `${kind}/${sha256(principal).slice(0, 24)}/`;
}

/** Returns a short name for a secret: enough to tell two apart, but not to use one. */
export function fingerprint(secret: string): string {
  return sha256(secret).slice(0, 12);
}
