import { isObject } from 'mcp-valise/internal';
import type { Params, Result } from 'mcp-valise/wire';
import type { HostQuestions } from './host-questions.ts';

const CANCELLED: Result = { action: 'cancel' };

/**
 * Asks a host of the older era all questions of a newer server's round at once. A question that the host refuses counts as
 * cancelled. Returns undefined if the questions were withdrawn.
 */
export async function askRound(
  host: HostQuestions,
  owner: object,
  questions: Readonly<Record<string, unknown>>,
): Promise<Readonly<Record<string, Result>> | undefined> {
  const answers: [string, Result][] = [];
  const all = Object.entries(questions).map(async ([key, question]) => {
    const answer = await askOne(host, owner, question);
    if (answer) answers.push([key, answer]);
  });
  await Promise.all(all);
  return answers.length === all.length ? Object.fromEntries(answers) : undefined;
}

function askOne(host: HostQuestions, owner: object, question: unknown): Promise<Result | undefined> {
  const { method, params } = isObject(question) ? question : {};
  const asked = {
    jsonrpc: '2.0',
    method: String(method),
    ...(isObject(params) && { params: params as Params }),
  } as const;
  return new Promise((resolve) =>
    host.ask(owner, asked, (answer) => resolve(answer && ('result' in answer ? answer.result : CANCELLED))),
  );
}
