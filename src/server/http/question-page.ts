import { checkForm, type FormSchema } from '../../wire/index.ts';
import { QUESTION_PARAMETER } from '../carriers/fallback.ts';
import type { Rounds } from '../flows/rounds.ts';
import { messagePage, PAGE_HEADERS, questionPage, readForm } from './question-form.ts';

/** A response of the page. */
export interface PageResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The largest form that the page accepts, in bytes. */
export const MAX_FORM = 64 * 1024;

/** Returns the secret of the question that a URL is the page of, or undefined if it is for the handler. */
export function questionIn(url: string): string | undefined {
  const at = url.indexOf(`${QUESTION_PARAMETER}=`);
  if (at < 1 || !'?&'.includes(url[at - 1] as string)) return undefined;
  return url.slice(at + QUESTION_PARAMETER.length + 1).split('&', 1)[0];
}

/**
 * Serves the page of a question, where the user answers it once.
 *
 * Showing the page changes nothing, since mail and chat programs fetch links before anybody opens them.
 */
export async function serveQuestion(
  { around, context, refused }: Pick<Rounds, 'around' | 'context' | 'refused'>,
  method: string,
  token: string,
  readBody: () => Promise<string | undefined>,
): Promise<PageResponse> {
  if (method !== 'GET' && method !== 'HEAD' && method !== 'POST')
    return respond(405, messagePage('Not possible', 'This page can only be opened and answered.'));
  const found = await around.questions.look(token);
  if (!found) {
    refused('the page of a question', { code: 'unknown' });
    return respond(404, messagePage('Not found', 'This question is unknown, or it has expired.'));
  }
  const { params, answer } = found.question;
  if (answer) return respond(410, OVER);
  if (method !== 'POST') return respond(200, questionPage(context.name, params));
  const body = await readBody();
  if (body === undefined) return respond(413, messagePage('Too much', 'The answer is too long.'));
  const form = new URLSearchParams(body);
  const action = form.get('valise-action') === 'accept' ? 'accept' : 'decline';
  const content = readForm(params, form);
  const schema = params['requestedSchema'] as unknown as FormSchema | undefined;
  const problems = action === 'accept' && schema ? checkForm(schema, content) : [];
  if (problems.length > 0) return respond(422, questionPage(context.name, params, content, problems));
  const isFirst = await around.questions.answer(
    found,
    action === 'accept' && schema ? { action, content } : { action },
  );
  if (!isFirst) refused('a second answer on the page of a question', { code: 'replayed' });
  return isFirst ? respond(200, THANKS) : respond(410, OVER);
}

const THANKS = messagePage(
  'Thank you',
  'Your answer has been saved. Go back to the chat and say that you have answered.',
);
const OVER = messagePage('Answered', 'This question has been answered. You can close this page.');

function respond(status: number, body: string): PageResponse {
  return { status, headers: PAGE_HEADERS(), body };
}
