import { inspectToken, SealError } from '../../seal/index.ts';
import type { ServerContext } from '../context.ts';
import { Recent } from '../recent.ts';
import { LINGER } from './registry.ts';
import type { Row } from './row.ts';

const PURPOSE = 'session-record';
/** The number of genuine records that are remembered. */
const MOST = 4096;

/**
 * Binds session records to their session under the server's keys: id, owner, list, creation time and latest end.
 *
 * Somebody who can write to the store but has no keys cannot give a session to somebody else, invent one, or prolong one. The
 * values are not bound; use a sealed store for that.
 */
export class RecordProof {
  readonly #sealer: ServerContext['sealer'];
  /**
   * The claims that each proof was found to prove. Proofs do not change, so one that is checked on every call is opened once.
   */
  readonly #proved = new Recent<string>(MOST);

  constructor({ sealer }: ServerContext) {
    this.#sealer = sealer;
  }

  /** Returns the record with a proof by the first key. */
  signed(row: Row): Row {
    if (row.proof !== undefined && inspectToken(row.proof).kid === this.#sealer.kid) return row;
    const ttl = Math.max(1, (row.until - Date.now()) / 1000) + LINGER;
    const proof = this.#sealer.seal(null, { purpose: PURPOSE, bind: claimsOf(row), ttl });
    this.#proved.set(proof, JSON.stringify(claimsOf(row)));
    return { ...row, proof };
  }

  /** Whether this server wrote the record. Throws if the check needs a key that is not on the keyring. */
  isGenuine(row: Row): boolean {
    const { proof, ended, beginning, expires, until } = row;
    // An end is trusted: whoever can write it could as well delete the record.
    if (ended !== null) return true;
    if (typeof proof !== 'string' || (!beginning && expires > until)) return false;
    const claims = claimsOf(row);
    const text = JSON.stringify(claims);
    if (this.#proved.get(proof) === text) return true;
    try {
      this.#sealer.open(proof, { purpose: PURPOSE, bind: claims });
    } catch (error) {
      if (!(error instanceof SealError)) throw error;
      return false;
    }
    this.#proved.set(proof, text);
    return true;
  }
}

type Claims = [id: string, owner: string | null, shelf: string, created: number, until: number];

function claimsOf({ id, owner, shelf, created, until }: Row): Claims {
  return [id, owner, shelf, created, until];
}
