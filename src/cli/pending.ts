import { LEFT_OPEN } from '../client/index.ts';
import { isObject } from '../json.ts';
import { EXIT } from './exit.ts';
import { printJson, remark } from './output.ts';

/** The id of the round that a call was left waiting in (`known`, where the error does not name it); undefined for any other error. */
export function pendingIn(error: unknown, known?: string): string | undefined {
  const { code, rpcCode, data } = (error ?? {}) as Readonly<Record<string, unknown>>;
  if (code !== LEFT_OPEN && rpcCode !== LEFT_OPEN) return undefined;
  const id = isObject(data) ? data['pending'] : undefined;
  return typeof id === 'string' ? id : known;
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
