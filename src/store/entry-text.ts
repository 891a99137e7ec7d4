import { ValiseError } from '../errors.ts';
import type { Json } from '../json.ts';
import type { Entry } from './types.ts';

/** An entry as servers hand it out: `version SP expiresAt-or-0 SP json`, one text that costs one field to read. */
export function parseEntry(key: string, text: string): Entry {
  const first = text.indexOf(' ');
  const second = text.indexOf(' ', first + 1);
  try {
    if (first < 1 || second < 0) throw new SyntaxError('no version');
    const value = JSON.parse(text.slice(second + 1)) as Json;
    const version = text.slice(0, first);
    const expiresAt = Number(text.slice(first + 1, second));
    return expiresAt === 0 ? { value, version } : { value, version, expiresAt };
  } catch (cause) {
    throw new ValiseError('store-corrupt', `The entry ${JSON.stringify(key)} is not what Valise wrote.`, {
      next: 'Give Valise a namespace or a table that nothing else writes to.',
      cause,
    });
  }
}
