import { describe, expect, it } from 'vitest';
import { allSources } from './sources.ts';

describe('the output of the library and the command', () => {
  it('All output goes through cli/src/output/output.ts, which escapes it', () => {
    const direct = allSources()
      .filter(({ path }) => path !== 'cli/output/output.ts')
      .flatMap(({ path, text }) =>
        text
          .split('\n')
          .filter((line) => !/^\s*(\*|\/[/*])/.test(line))
          .filter((line) => /\bconsole\.(?!ts\b|invalid\b)|process\.(stdout|stderr)\.write/.test(line))
          .map((line) => `${path}: ${line.trim()}`),
      );
    expect(direct).toEqual([]);
  });
});
