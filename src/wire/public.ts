/**
 * The names that Valise uses on the wire in both protocol eras, and the test vectors of the specification. An
 * implementation in another language can be checked against them.
 *
 * @module
 */
import c from '../../spec/vectors/c.json' with { type: 'json' };
import j from '../../spec/vectors/j.json' with { type: 'json' };
import r from '../../spec/vectors/r.json' with { type: 'json' };
import s from '../../spec/vectors/s.json' with { type: 'json' };

export { NAMES, type Names } from './names.ts';

/** One test vector: an input, and what a conforming implementation makes of it. */
export interface Vector {
  readonly id: string;
  /** The rows of the requirements that it proves, such as `J-05`. */
  readonly rows: readonly string[];
  readonly title: string;
  /** `do` names the operation, which `spec/wire.md` describes; the other members are its arguments. */
  readonly input: { readonly do: string };
  readonly expect: unknown;
}

/** The test vectors of each family, as in `spec/vectors/`. */
export const VECTORS: {
  readonly [Family in 'jar' | 'flows' | 'sessions' | 'continuity']: readonly Vector[];
} = {
  jar: j,
  flows: r,
  sessions: s,
  continuity: c,
};
