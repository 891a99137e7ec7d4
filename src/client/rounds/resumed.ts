import { Course } from '../../link/course.ts';
import { inputRequired, type Result } from '../../wire/index.ts';
import type { Kept } from './pending-store.ts';
import type { Round } from './round.ts';

/** A round that the SDK itself is to answer: its call gets the kept round for an answer, and goes on from there. */
interface Resumed {
  readonly id: string;
  readonly requestState: string | undefined;
  readonly result: Result;
}

const resuming = new Course<{ next: Resumed | undefined }>();

/** The round that stands for the answer to the call that is being sent, once. */
export function takeResumed(): Resumed | undefined {
  const store = resuming.current;
  const next = store?.next;
  if (store) store.next = undefined;
  return next;
}

/** What a client of SDK v2 has for sending any request. */
interface Requesting {
  request(request: { readonly method: string; readonly params?: object | undefined }): Promise<Result>;
}

/** Has an SDK client answer a kept round from its own handlers, and all that come after it. */
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
