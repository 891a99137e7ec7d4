import { LeaveOpen } from 'mcp-valise/client';
import { EXPIRES_AT, isObject } from 'mcp-valise/internal';
import { CommandError } from '../errors.ts';
import { clean, remark } from '../output/output.ts';
import { type Field, fieldsOf, readValue } from './field.ts';
import { readLink } from './question.ts';

/** The answer to an elicitation. */
export type Elicited =
  | { readonly action: 'accept'; readonly content: Record<string, unknown> }
  | { readonly action: 'decline' | 'cancel' };

/** Where answers come from: the command line first, then a person at the terminal if there is one. */
export interface AnswerSource {
  /** Values of `--answer FIELD=VALUE`, by field. */
  readonly given: ReadonlyMap<string, string>;
  readonly interactive: boolean;
}

/** Parses `--answer` values. */
export function parseAnswers(texts: readonly string[]): Map<string, string> {
  return new Map(
    texts.map((text) => {
      const equals = text.indexOf('=');
      if (equals < 1)
        throw new CommandError('bad-answer', `"${text}" is not FIELD=VALUE.`, {
          next: 'Write for example --answer resolution=Fixed.',
        });
      return [text.slice(0, equals), text.slice(equals + 1)];
    }),
  );
}

/**
 * Answers an elicitation, or leaves it open if nobody is there to ask. `asked` collects the fields that the server has asked
 * for so far, because an answer that one question does not use may belong to another.
 */
export async function answerElicitation(
  params: unknown,
  { given, interactive }: AnswerSource,
  asked = new Set<string>(),
): Promise<Elicited> {
  const { message, requestedSchema, url } = isObject(params) ? params : {};
  if (url !== undefined) {
    const { words, isSafe } = readLink(url);
    remark(clean(words));
    if (isSafe) throw new LeaveOpen();
    return { action: 'decline' };
  }
  const fields = fieldsOf(requestedSchema);
  const content: Record<string, unknown> = {};
  const open: Field[] = [];
  for (const field of fields) {
    asked.add(field.name);
    const text = given.get(field.name);
    if (text === undefined) open.push(field);
    else content[field.name] = taken(field, text);
  }
  const answered = open.length < fields.length || fields.length === 0;
  if (answered && given.size > 0 && open.every((field) => !field.required || field.initial !== undefined)) {
    for (const field of open) if (field.initial !== undefined) content[field.name] = field.initial;
    return { action: 'accept', content };
  }
  tellUnasked(given, asked);
  if (!interactive) throw new LeaveOpen();
  const { askPerson } = await import('./terminal.ts');
  return askPerson(String(message ?? ''), open, content, expiryIn(params));
}

/** Returns when the server stops accepting answers, if it says so. */
function expiryIn(params: unknown): Date | undefined {
  const { _meta } = isObject(params) ? params : {};
  const time = isObject(_meta) ? Date.parse(String(_meta[EXPIRES_AT])) : Number.NaN;
  return time > Date.now() ? new Date(time) : undefined;
}

function taken(field: Field, text: string): unknown {
  const read = readValue(field, text);
  if ('value' in read) return read.value;
  const value = field.secret ? 'The value' : `"${text}"`;
  throw new CommandError('answer-unfit', `${value} does not fit ${field.name}.`, { next: read.problem });
}

/** Reports each unused answer once: afterwards its name counts as asked. */
function tellUnasked(given: ReadonlyMap<string, string>, asked: Set<string>): void {
  const names = [...given.keys()].filter((name) => !asked.has(name));
  if (names.length > 0) remark(`valise: ${names.join(', ')} of --answer is not asked here.`);
  for (const name of names) asked.add(name);
}
