import { isObject, type Json } from 'mcp-valise/internal';
import { type Carried, carriedBy, shown } from './carried.ts';

/** A message between two lanes. */
export interface Step {
  readonly from: string;
  readonly to: string;
  /** A label of one or two words. */
  readonly what: string;
  /** A sentence: the call, the answer or the question. */
  readonly says?: string;
  readonly carried: readonly Carried[];
  /** The message as it was on the wire, with sealed values as fingerprints. */
  readonly message: Json;
}

/** Describes a message between two lanes, and the state carried beside it. */
export function stepOf(
  lanes: { readonly from: string; readonly to: string },
  message: unknown,
  beside: readonly Carried[] = [],
): Step {
  const says = saysOf(message);
  return {
    ...lanes,
    what: whatOf(message),
    ...(says !== undefined && { says }),
    carried: [...beside, ...carriedBy(message)],
    message: shown(message),
  };
}

function whatOf(message: unknown): string {
  if (!isObject(message)) return 'message';
  const { method, result } = message;
  if (typeof method === 'string') {
    const answers = isObject(message['params']) && 'inputResponses' in message['params'];
    return answers ? `${method} again` : method.replace(/^dev\.valise\//, '').replace(/^notifications\//, '');
  }
  if ('error' in message) return 'error';
  return isObject(result) && 'inputRequests' in result ? 'question' : 'result';
}

function saysOf(message: unknown): string | undefined {
  if (!isObject(message)) return undefined;
  const { params, result, error } = message;
  if (isObject(error)) return `${String(error['code'])} ${String(error['message'])}`;
  if (isObject(params)) return saysRequest(params);
  if (!isObject(result)) return undefined;
  const questions = isObject(result['inputRequests']) ? Object.values(result['inputRequests']) : [];
  if (questions.length > 0) return questions.map(questionOf).join(' ');
  const content = Array.isArray(result['content']) ? result['content'] : [];
  const texts = content.flatMap((item: unknown) =>
    isObject(item) && typeof item['text'] === 'string' ? [item['text']] : [],
  );
  return texts.length > 0 ? texts.join(' ').replace(/\n/g, ' · ') : undefined;
}

function saysRequest({
  name,
  arguments: given,
  inputResponses,
}: Record<string, unknown>): string | undefined {
  if (isObject(inputResponses)) {
    return Object.entries(inputResponses)
      .map(([key, answer]) => `${key}: ${answerOf(answer)}`)
      .join(', ');
  }
  return typeof name === 'string' ? `${name} ${JSON.stringify(given ?? {})}` : undefined;
}

function answerOf(answer: unknown): string {
  if (!isObject(answer)) return JSON.stringify(answer);
  return answer['action'] === 'accept' ? JSON.stringify(answer['content']) : String(answer['action']);
}

function questionOf(question: unknown): string {
  const params = isObject(question) && isObject(question['params']) ? question['params'] : {};
  return String(params['message'] ?? '');
}
