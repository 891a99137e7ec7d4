import { isSession, readSession, type SessionMeta } from '../../wire/index.ts';
import type { Exchange } from '../exchange.ts';
import { Slot } from '../exchange.ts';
import type { Answered } from './continuation.ts';
import type { RoundLease } from './single-use.ts';

/** The round that a call continues. */
export interface Input extends Answered {
  /** The right to continue it. */
  readonly lease: RoundLease;
  /** Whether the call was found again by what carries its client's state. */
  readonly isRecalled?: boolean;
}

/** The round that each exchange continues. */
export const inputs = new Slot<Input>();

const behind = new Slot<true>();

/** Records that a handler that waited continues with a session state that the answer does not confirm as current. */
export function noteWaited(exchange: Exchange, present: SessionMeta | undefined): void {
  const session = readSession(exchange.request.params?._meta);
  if (isSession(session) && session.state !== present?.state) behind.set(exchange, true);
}

/** Whether a call continues after an answer with a session state that may be outdated. */
export function isBehind(exchange: Exchange): boolean {
  return inputs.get(exchange)?.isBehind === true || behind.get(exchange) === true;
}
