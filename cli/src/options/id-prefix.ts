import { UsageError } from '../errors.ts';

/**
 * Returns the entry with this id, or the only one whose id starts with it; undefined if there is none. A trailing ellipsis,
 * as tables print it, is not part of the id.
 */
export function byId<Listed extends { readonly id: string }>(
  given: string,
  all: readonly Listed[],
): Listed | undefined {
  const exact = all.find(({ id }) => id === given);
  const beginning = given.replace(/…$/, '');
  if (exact || beginning === '') return exact;
  const found = all.filter(({ id }) => id.startsWith(beginning));
  if (found.length < 2) return found[0];
  const shown = found.slice(0, MOST_SHOWN).map(({ id }) => (id.length > 64 ? `${id.slice(0, 64)}…` : id));
  const more = found.length > MOST_SHOWN ? [`and ${found.length - MOST_SHOWN} more`] : [];
  throw new UsageError(
    'ambiguous-id',
    `${found.length} ids begin with ${beginning}: ${[...shown, ...more].join(', ')}.`,
    { next: 'Write more of the one you mean.' },
  );
}

const MOST_SHOWN = 10;
