import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { keptResults, notShown, PAGE, pageWith } from '../../scripts/frameworks.mjs';
import { root } from './sources.ts';

const page = readFileSync(root + PAGE, 'utf8');

describe('the page about frameworks', () => {
  it('The page has the table of the last run of the compat tests and the code of the examples', () => {
    expect(page, 'stale: run `npm run compat -- servers --write`').toBe(pageWith(page, keptResults()));
  });

  it('The page shows every example', () => {
    expect(notShown(page)).toEqual([]);
  });

  it('The page says for every cell that it works, or why not and what to do next', () => {
    const cells = keptResults().flatMap(({ cells }) => Object.values(cells));
    expect(cells.length).toBeGreaterThan(50);
    expect(cells.filter((cell) => !/^works|Next: /.test(cell))).toEqual([]);
  });
});
