import { isObject, type Json, type JsonObject } from '../../json.ts';
import { checkForm, choicesOf, type FormField, type FormSchema, type Response } from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import type { Exchange, ServerMiddleware } from '../exchange.ts';
import { isOf } from '../flows/context.ts';
import type { Question } from '../flows/question.ts';
import type { OpenQuestions } from './open-questions.ts';

/** The tool with which a model passes the user's answer on. */
export const ANSWER_TOOL = 'answer_question';

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
  questions: OpenQuestions,
  isAsking: () => boolean,
): ServerMiddleware {
  const say = (exchange: Exchange, text: string, isError = false): Response =>
    exchange.respond({ result: { content: [{ type: 'text', text }], ...(isError && { isError }) } });

  const answered = async (exchange: Exchange): Promise<Response> => {
    const args = exchange.request.params?.['arguments'];
    const { question: token, answer } = isObject(args) ? args : {};
    const found = typeof token === 'string' ? await questions.look(token) : undefined;
    if (!found || !isOf(found.question.context, exchange.principal) || found.question.answer)
      return say(exchange, 'This question is no longer open. Call the tool that asked it again.', true);
    const { mark, params } = found.question;
    if (mark) {
      events.emit('rejected', { family: 'rounds', what: 'an answer of the model', reason: mark });
      return say(exchange, 'Only the user can answer this question, on the page that was given.', true);
    }
    const schema = params['requestedSchema'] as unknown as FormSchema;
    if (answer === '' || answer === undefined || answer === null) {
      await questions.answer(found, { action: 'decline' });
      return say(exchange, 'Noted: the user declines. Call the tool that asked again.');
    }
    const content = contentOf(schema, answer as Json);
    const problems = checkForm(schema, content);
    if (problems.length > 0) {
      const named = problems.map(({ field, expected }) => `${field || 'the answer'} should be ${expected}`);
      return say(exchange, `The answer does not fit: ${named.join('; ')}. Ask the user again.`, true);
    }
    await questions.answer(found, { action: 'accept', content });
    return say(exchange, 'Noted. Call the tool that asked again, with the same arguments.');
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
export function answerAdvice(token: string, message: string, { params }: Question): string {
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
