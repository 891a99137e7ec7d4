import { LEFT_OPEN, type Pending } from '../client/index.ts';
import { isObject } from '../json.ts';
import { EXIT } from './exit.ts';
import { printJson, remark } from './output.ts';

/** True for the error of a call whose question was left open. */
export function isLeftOpen(error: unknown): boolean {
  const { code, rpcCode } = (error ?? {}) as Readonly<Record<string, unknown>>;
  return code === LEFT_OPEN || rpcCode === LEFT_OPEN || code === 'left-open';
}

/** The id of the round that such a call waits in: the error names it, or it is the one that was kept last. */
export async function pendingIn(error: unknown, pending: Pending): Promise<string> {
  const { data } = error as { readonly data?: unknown };
  if (isObject(data) && typeof data['pending'] === 'string') return data['pending'];
  return (await pending.list()).at(-1)?.id ?? '';
}

/** Says that a call waits for an answer, and how to go on. */
export function tellPending(id: string, { json }: { readonly json?: boolean }): number {
  if (json) printJson({ pending: id });
  else {
    remark(`The server has asked something, and the call waits for the answer (${id}).`);
    remark('See it:  valise pending');
    remark(`Go on:   valise pending answer ${id} --answer FIELD=VALUE`);
  }
  return EXIT.pending;
}
