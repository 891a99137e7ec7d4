import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { withCodes } from '../../scripts/errors-doc.mjs';
import { ERROR_CODES } from '../../src/core/error-codes.ts';
import { allSources, root } from '../house/sources.ts';

describe('the error codes', () => {
  const codes = Object.keys(ERROR_CODES);

  it('There are at most 50 error codes', () => {
    expect(codes.length).toBeLessThanOrEqual(50);
  });

  it('All error codes are documented in docs/errors.md (node scripts/errors-doc.mjs renews it)', () => {
    const page = readFileSync(`${root}docs/errors.md`, 'utf8');
    expect(withCodes(page, ERROR_CODES)).toBe(page);
  });

  it('All error codes are used', () => {
    const text = allSources()
      .filter(({ path }) => path !== 'error-codes.ts')
      .map((source) => source.text)
      .join('\n');
    expect(codes.filter((code) => !text.includes(`'${code}'`))).toEqual([]);
  });
});
