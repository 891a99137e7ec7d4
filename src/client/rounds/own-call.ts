import type { Id, Response, Result } from '../../wire/index.ts';
import type { Call } from '../call.ts';
import type { Round } from './round.ts';

/** The key under which a round is handed to the sender of its call, if that was Valise itself. */
const ROUND = Symbol('round');

/** Whether Valise made this call to continue a stored one. The code that started it also answers its next round. */
export function isOwn({ request }: Call): boolean {
  return typeof request.id === 'string' && request.id.startsWith('valise:');
}

/** Wraps a round as the response to one of Valise's own calls. */
export function handOver(id: Id, round: Round): Response {
  return { jsonrpc: '2.0', id, result: { [ROUND]: round } as never };
}

/** Returns the round that was handed over as a result, if any. */
export function handedOver(result: Result): Round | undefined {
  return (result as { readonly [ROUND]?: Round })[ROUND];
}
