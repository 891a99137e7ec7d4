import { Course } from '../../link/course.ts';
import { inputRequired, type Result } from '../../wire/index.ts';
import type { Kept } from './pending-store.ts';
import type { Round } from './round.ts';

/** A stored round that the SDK itself answers. Its call receives the round as the response, and continues from there. */
interface Resumed {
  readonly id: string;
  readonly requestState: string | undefined;
  readonly result: Result;
}

const resuming = new Course<{ next: Resumed | undefined }>();

/** Returns the round that replaces the response to the call being sent. Returns it only once. */
export function takeResumed(): Resumed | undefined {
  const store = resuming.current;
  const next = store?.next;
  if (store) store.next = undefined;
  return next;
}

/** The method of an SDK v2 client that sends any request. */
interface Requesting {
  request(request: { readonly method: string; readonly params?: object | undefined }): Promise<Result>;
}

/** Lets an SDK client answer a stored round, and all later ones, with its own handlers. */
export function resume(
  client: object,
  { id, method, params, round }: Kept & { readonly method: string },
): Promise<Result> {
  const { questions, requestState } = round as Round & { readonly form: 'input' };
  const inputRequests = Object.fromEntries(questions.map(({ key, ...request }) => [key, request]));
  const result = inputRequired({
    ...(questions.length > 0 && { inputRequests }),
    ...(requestState !== undefined && { requestState }),
  });
  return resuming.run({ next: { id, requestState, result } }, () =>
    (client as Requesting).request({ method, params }),
  );
}
