import { isObject, type Json, type JsonObject } from '../../core/json.ts';
import { checkForm, choicesOf, type FormField, type FormSchema, type Response } from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import type { Exchange, SendRound, ServerMiddleware } from '../exchange.ts';
import { type Continuation, isOf } from '../flows/continuation.ts';
import type { Fallback } from '../flows/options.ts';
import { canAnswer, type Question } from '../flows/question.ts';
import type { PendingQuestions } from './pending-questions.ts';

/** The services for questions to clients that cannot be asked. */
export interface FallbackOptions {
  readonly fallback: Fallback;
  readonly questions: PendingQuestions;
  /** The public address of the page, if it differs from that of the request. */
  readonly page: string | undefined;
}

/** The parameter of the page's address that holds the secret of a question. */
export const QUESTION_PARAMETER = 'valise-question';

/** Returns how a question that the client cannot be asked is answered, or undefined if it is asked as usual, or not at all. */
export function fallbackFor(
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
export async function askByFallback(
  fallback: Exclude<Fallback, 'error'>,
  exchange: Exchange,
  question: Question,
  continuation: Continuation,
  ttl: number,
  { questions, page }: FallbackOptions,
): Promise<SendRound> {
  const token = await questions.ask(exchange, question, continuation, ttl);
  const name = String(exchange.request.params?.['name']);
  const again = `call "${name}" again with the same arguments${exchange.carrier.kind === 'handle' ? ' and the state_handle below' : ''}.`;
  const message = String(question.params?.['message'] ?? '');
  const text =
    fallback === 'tool'
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

/** The tool with which a model passes the user's answer on. */
const ANSWER_TOOL = 'answer_question';

const TOOL: JsonObject = {
  name: ANSWER_TOOL,
  description:
    'Passes the answer of the user to a question that this server has asked. Ask the user first, and never make an answer up.',
  inputSchema: {
    type: 'object',
    properties: {
      question: { type: 'string', description: 'The id of the question, from the result that asked it.' },
      answer: {
        type: 'string',
        description:
          'What the user has answered: the text itself if one thing was asked, otherwise a JSON object with the fields. Empty if the user declines.',
      },
    },
    required: ['question', 'answer'],
  },
};

/** Creates the middleware that lists the tool and answers its calls. It does nothing for a server without tools. */
export function answerTool(
  { events }: ServerContext,
  questions: PendingQuestions,
  isAsking: () => boolean,
): ServerMiddleware {
  const say = (exchange: Exchange, text: string, isError = false): Response =>
    exchange.respond({ result: { content: [{ type: 'text', text }], ...(isError && { isError }) } });

  const over = (exchange: Exchange): Response =>
    say(exchange, 'This question is no longer open. Call the tool that asked it again.', true);

  const answered = async (exchange: Exchange): Promise<Response> => {
    const args = exchange.request.params?.['arguments'];
    const { question: token, answer } = isObject(args) ? args : {};
    const found = typeof token === 'string' ? await questions.look(token) : undefined;
    if (!found || !isOf(found.question.continuation, exchange.principal) || found.question.answer)
      return over(exchange);
    const { mark, params } = found.question;
    if (mark) {
      events.emit('rejected', { family: 'flows', what: 'an answer of the model', reason: mark });
      return say(exchange, 'Only the user can answer this question, on the page that was given.', true);
    }
    const schema = params['requestedSchema'] as unknown as FormSchema;
    if (answer === '' || answer === undefined || answer === null) {
      const isFirst = await questions.answer(found, { action: 'decline' });
      return isFirst
        ? say(exchange, 'Noted: the user declines. Call the tool that asked again.')
        : over(exchange);
    }
    const content = contentOf(schema, answer as Json);
    const problems = checkForm(schema, content);
    if (problems.length > 0) {
      const named = problems.map(({ field, expected }) => `${field || 'the answer'} should be ${expected}`);
      return say(exchange, `The answer does not fit: ${named.join('; ')}. Ask the user again.`, true);
    }
    const isFirst = await questions.answer(found, { action: 'accept', content });
    return isFirst
      ? say(exchange, 'Noted. Call the tool that asked again, with the same arguments.')
      : over(exchange);
  };

  return async (exchange, next) => {
    if (exchange.method === 'tools/call' && exchange.request.params?.['name'] === ANSWER_TOOL && isAsking())
      return answered(exchange);
    const response = await next();
    if (exchange.method !== 'tools/list' || !('result' in response) || !isAsking()) return response;
    const { tools, nextCursor } = response.result;
    // It is on the last page of the list.
    if (!Array.isArray(tools) || nextCursor !== undefined) return response;
    return { ...response, result: { ...response.result, tools: [...tools, TOOL] } };
  };
}

/** Returns what tells the model how to answer. */
function answerAdvice(token: string, message: string, { params }: Question): string {
  const { properties = {} } = (params?.['requestedSchema'] ?? {}) as Partial<FormSchema>;
  const fields = Object.entries(properties).map(([name, field]) => {
    const choices = choicesOf(field);
    return `${name} (${choices ? choices.map((choice) => JSON.stringify(choice)).join(' or ') : field.type})`;
  });
  return `Ask the user: ${JSON.stringify(message)} Then call ${ANSWER_TOOL} with question "${token}" and the answer: ${fields.join(', ')}.`;
}

/** Reads an answer: a JSON object with the fields, or the text of the only field. */
function contentOf({ properties }: FormSchema, answer: Json): JsonObject {
  const read = typeof answer === 'string' ? parsed(answer) : answer;
  if (isObject(read)) return read as JsonObject;
  const [[name, field] = [], ...others] = Object.entries(properties);
  return name === undefined || !field || others.length > 0 ? {} : { [name]: fieldValue(field, answer, read) };
}

function fieldValue({ type }: FormField, answer: Json, read: unknown): Json {
  if (type === 'string') return typeof answer === 'string' ? answer : JSON.stringify(answer);
  if (type === 'array' && !Array.isArray(read)) return [answer];
  if (type === 'boolean' && typeof answer === 'string')
    return /^(y|yes|true|ok)$/i.test(answer) || (/^(n|no|false)$/i.test(answer) ? false : answer);
  return (read ?? answer) as Json;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
