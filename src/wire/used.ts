import type { Meta, Request, Response } from './message.ts';
import { DRAFTS, NAMES } from './names.ts';

const { legacy, modern } = NAMES;
const STATE = [modern.state.key, legacy.state.session, legacy.state.server];
const SESSION = [modern.session, legacy.session, DRAFTS.session];
const IDEMPOTENCY = [modern.idempotency.key];

/** Whether a message names a data-layer session, in any spelling. */
export function hasSession(meta: Meta | undefined): boolean {
  return meta !== undefined && SESSION.some((key) => meta[key] !== undefined);
}

/** Returns the families that a request and its response use, by their letters. `isRound`: whether they belong to a flow. */
export function familiesUsed(request: Request, response: Response | undefined, isRound: boolean): string[] {
  const metas = [request.params?._meta, response && 'result' in response ? response.result._meta : undefined];
  const has = (keys: readonly string[]): boolean =>
    metas.some((meta) => meta && keys.some((key) => meta[key] !== undefined));
  return [
    ...(has(STATE) ? ['J'] : []),
    ...(isRound ? ['R'] : []),
    ...(has(SESSION) ? ['S'] : []),
    ...(has(IDEMPOTENCY) ? ['I'] : []),
  ];
}
