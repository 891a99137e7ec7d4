import type { Id, Response, Result } from '../../wire/index.ts';
import type { Call } from '../call.ts';
import type { Round } from './round.ts';

/** Brings a round to whoever sent the call that it belongs to, where that was Valise itself. */
const ROUND = Symbol('round');

/** True for a call that Valise makes to go on with a kept one. Whoever had it made answers its next round too. */
export function isOwn({ request }: Call): boolean {
  return typeof request.id === 'string' && request.id.startsWith('valise:');
}

/** A round as the answer to a call of our own. */
export function handOver(id: Id, round: Round): Response {
  return { jsonrpc: '2.0', id, result: { [ROUND]: round } as never };
}

/** The round that was handed over as a result. */
export function handedOver(result: Result): Round | undefined {
  return (result as { readonly [ROUND]?: Round })[ROUND];
}
