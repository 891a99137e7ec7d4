/**
 * Names, shapes, codes and eras of the four families: pure data and pure functions. Reading is liberal and never
 * throws; writing is strict.
 *
 * @packageDocumentation
 */
export * from './announce.ts';
export * from './dict.ts';
export * from './era.ts';
export * from './message.ts';
export * from './names.ts';
export * from './problem.ts';
export * from './session.ts';
export * from './session-errors.ts';
export * from './state.ts';
