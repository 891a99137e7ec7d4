/** Why a piece of a peer's message was not taken. */
export type ProblemCode =
  /** Not of the type that the field has. */
  | 'wrong-type'
  /** Of the right type, outside what is allowed. */
  | 'bad-value'
  /** More entries than Valise reads from one message. */
  | 'too-many'
  /** Nested deeper than Valise reads. */
  | 'too-deep'
  /** A needed part is missing. */
  | 'incomplete'
  /** Two places say different things. */
  | 'conflict';

/** What a reader returns or collects instead of throwing: a peer's mistake never fails a call by itself. */
export interface Problem {
  readonly problem: ProblemCode;
  /** The place, as a path that a person can follow; never the value. */
  readonly where: string;
}

/** True where a reader returned a {@link Problem} instead of what it reads. */
export function isProblem(reading: unknown): reading is Problem {
  return typeof reading === 'object' && reading !== null && 'problem' in reading;
}
