import { confirm, isCancel, multiselect, note, password, select, text } from '@clack/prompts';
import { LeaveOpen } from 'mcp-valise/client';
import { clean, until } from '../output/output.ts';
import type { Elicited } from './answerer.ts';
import { type Field, readValue } from './field.ts';

const CHOICES = [
  { value: 'accept', label: 'Accept' },
  { value: 'decline', label: 'Decline' },
  { value: 'later', label: 'Later', hint: 'also Esc; the server is told nothing' },
] as const;

/**
 * Asks a person to accept or decline, and for the fields that have no value yet. "Later", Escape and Ctrl+C leave the
 * question open and throw {@link LeaveOpen}.
 */
export async function askPerson(
  message: string,
  fields: readonly Field[],
  content: Record<string, unknown>,
  expiresAt?: Date,
): Promise<Elicited> {
  const output = process.stderr;
  const title = expiresAt ? `The server asks; this expires ${until(expiresAt)}` : 'The server asks';
  note(clean(message, 'lines'), title, { output });
  const choice = await select({ message: 'Your answer', options: [...CHOICES], output });
  if (isCancel(choice) || choice === 'later') throw new LeaveOpen();
  if (choice === 'decline') return { action: 'decline' };
  for (const field of fields) {
    const value = await askField(field);
    if (isCancel(value)) throw new LeaveOpen();
    if (value !== undefined) content[field.name] = value;
  }
  return { action: 'accept', content };
}

/** Asks a person to confirm something that cannot be undone. */
export async function agreed(message: string): Promise<boolean> {
  return (await confirm({ message: clean(message), initialValue: false, output: process.stderr })) === true;
}

async function askField(field: Field): Promise<unknown> {
  const output = process.stderr;
  const initial = field.initial === undefined ? undefined : String(field.initial);
  // The prompt cannot escape its initial value without changing the answer, and nobody should send text they cannot see.
  const isShown = initial === undefined || initial === clean(initial);
  const message =
    clean([field.title, field.description].filter(Boolean).join(' · ')) +
    (field.required ? '' : ' (optional)') +
    (isShown ? '' : ` (its default has characters that are not shown: ${clean(initial)})`);
  const options = field.choices?.map(({ value, label }) => ({ value, label: clean(label) }));
  if (field.type === 'array' && options) {
    return multiselect({ message, options, required: field.required, output });
  }
  if (options) {
    const chosen = typeof field.initial === 'string' ? { initialValue: field.initial } : {};
    return select({ message, options, ...chosen, output });
  }
  if (field.type === 'boolean') return confirm({ message, initialValue: field.initial === true, output });
  const validate = (typed: string | undefined): string | undefined => {
    if (!typed) return field.required ? 'This one is needed.' : undefined;
    const read = readValue(field, typed);
    return 'problem' in read ? read.problem : undefined;
  };
  const typed = field.secret
    ? await password({ message, validate, output })
    : await text({
        message,
        validate,
        output,
        ...(initial !== undefined && isShown && { initialValue: initial }),
      });
  if (isCancel(typed) || !typed) return isCancel(typed) ? typed : undefined;
  const read = readValue(field, typed);
  return 'value' in read ? read.value : undefined;
}
