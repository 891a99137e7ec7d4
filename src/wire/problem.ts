/** Why part of a peer's message was rejected. */
export type ProblemCode =
  /** The value has the wrong type. */
  | 'wrong-type'
  /** The value has the right type but is outside the allowed range. */
  | 'bad-value'
  /** There are more entries than Valise reads from one message. */
  | 'too-many'
  /** The value is nested deeper than Valise reads. */
  | 'too-deep'
  /** A required part is missing. */
  | 'incomplete'
  /** Two places contradict each other. */
  | 'conflict';

/** A problem that a reader returns or collects instead of throwing, so that a peer's mistake never fails a call by itself. */
export interface Problem {
  readonly problem: ProblemCode;
  /** The place, as a readable path. Never contains the value. */
  readonly where: string;
}

/** Whether a reader returned a {@link Problem} instead of a value. */
export function isProblem(reading: unknown): reading is Problem {
  return typeof reading === 'object' && reading !== null && 'problem' in reading;
}
