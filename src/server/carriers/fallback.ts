import type { Exchange, SendRound } from '../exchange.ts';
import { canAnswer } from '../flows/capability.ts';
import type { RoundContext } from '../flows/context.ts';
import type { Question } from '../flows/question.ts';
import { ANSWER_TOOL, answerAdvice } from './answer-tool.ts';
import type { OpenQuestions } from './open-questions.ts';

/**
 * What happens to a question if the client cannot put it to its user.
 *
 * - `error`: the handler gets the error `client-cannot`
 * - `url`: the result of the call is a link to a page of this server, where the user answers; needs `valise.http`
 * - `tool`: the model asks the user, and answers with the tool `answer_question`; never for consent or secrets
 */
export type Fallback = 'error' | 'url' | 'tool';

/** The services for questions to clients that cannot be asked. */
export interface FallbackOptions {
  readonly fallback: Fallback;
  readonly questions: OpenQuestions;
  /** The public address of the page, if it differs from that of the request. */
  readonly page: string | undefined;
}

/** The parameter of the page's address that holds the secret of a question. */
export const QUESTION_PARAMETER = 'valise-question';

/** Returns how a question that the client cannot be asked is answered, or undefined if it is asked as usual, or not at all. */
export function wayAround(
  exchange: Exchange,
  question: Question,
  { fallback, questions, page }: FallbackOptions,
): Exclude<Fallback, 'error'> | undefined {
  if (fallback === 'error' || exchange.method !== 'tools/call') return undefined;
  if (question.method !== 'elicitation/create' || canAnswer(exchange.peer, question)) return undefined;
  if (questions.placeOf(exchange) === undefined) return undefined;
  if (fallback === 'tool' && question.mark === undefined) return 'tool';
  return pageOf(exchange, page) === undefined ? undefined : 'url';
}

/** Stores a question. Returns the function that answers the call with how to continue it. */
export async function sendAround(
  way: Exclude<Fallback, 'error'>,
  exchange: Exchange,
  question: Question,
  context: RoundContext,
  ttl: number,
  { questions, page }: FallbackOptions,
): Promise<SendRound> {
  const token = await questions.ask(exchange, question, context, ttl);
  const name = String(exchange.request.params?.['name']);
  const again = `call "${name}" again with the same arguments${exchange.carrier.kind === 'handle' ? ' and the state_handle below' : ''}.`;
  const message = String(question.params?.['message'] ?? '');
  const text =
    way === 'tool'
      ? `${answerAdvice(token, message, question)}\nAfter ${ANSWER_TOOL}, ${again}`
      : [
          `The user has to answer a question first: ${JSON.stringify(message)}`,
          'Show the user this link, and wait until they say that they have answered:',
          linkTo(pageOf(exchange, page) ?? '', token),
          `Then ${again}`,
        ].join('\n');
  // Clients expect structured content from a tool that declares it, except in an error.
  const isError = exchange.toolOf(name)?.hasOutput === true;
  return async () =>
    exchange.respond({ result: { content: [{ type: 'text', text }], ...(isError && { isError }) } });
}

function pageOf({ edgeContext }: Exchange, page: string | undefined): string | undefined {
  return page !== undefined && edgeContext ? page : edgeContext?.page?.();
}

function linkTo(page: string, token: string): string {
  return `${page}${page.includes('?') ? '&' : '?'}${QUESTION_PARAMETER}=${token}`;
}
