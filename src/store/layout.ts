import { ValiseError } from '../errors.ts';

/**
 * Compares the format of a store with the one that this version writes. Returns true if they are the same, and false if
 * the store needs an upgrade. Throws `store-newer` for the format of a later version, so that nothing in it is touched.
 */
export function checkLayout(place: string, found: unknown, current: number): boolean {
  const layout = found === undefined || found === null ? 0 : Number(found);
  if (layout <= current) return layout === current;
  throw new ValiseError(
    'store-newer',
    `The ${place} was written by a later version of Valise (format ${layout}, known: ${current}).`,
    {
      next: 'Upgrade this process. Nothing was changed.',
    },
  );
}
