import { sha256 } from '../../sha256.ts';

/** Whose connection something belongs to: the server's full URL, and the user where the host tells users apart. */
export interface Whose {
  readonly target: string;
  readonly principal: string;
}

type Kind = 'connection' | 'credentials' | 'account';

/** Where something of a connection is kept. Digests, since who may read the store's keys need not read whose they are. */
export function keyOf(kind: Kind, { target, principal }: Whose): string {
  return `${prefixOf(kind, principal)}${sha256(target).slice(0, 24)}`;
}

/** What all keys of a principal start with. */
export function prefixOf(kind: Kind, principal: string): string {
  return `${kind}/${sha256(principal).slice(0, 24)}/`;
}

/** A short name for something secret: enough to tell two apart, too little to use. */
export function fingerprint(secret: string): string {
  return sha256(secret).slice(0, 12);
}
