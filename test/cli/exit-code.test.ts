import { ValiseError } from 'mcp-valise/client';
import { describe, expect, it } from 'vitest';
import { checkUsage, UsageError } from '../../cli/src/errors.ts';
import { EXIT, errorBody, exitCodeOf } from '../../cli/src/output/exit.ts';

describe('the exit code of a command', () => {
  it('is 1 for an invalid-argument of the library that the command line did not cause', () => {
    expect(exitCodeOf(new ValiseError('invalid-argument', 'A server sent a bad cursor.'))).toBe(EXIT.failed);
  });

  it('is 2 for an error in the command line, with the code and the advice of the check that found it', () => {
    const bad = (): never => {
      throw new ValiseError('invalid-argument', 'This is not a duration.', { next: 'Write 4h.' });
    };
    let error: unknown;
    try {
      checkUsage(bad);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(UsageError);
    expect(exitCodeOf(error)).toBe(EXIT.usage);
    expect(errorBody(error)).toEqual({
      code: 'invalid-argument',
      message: 'This is not a duration. Write 4h.',
    });
  });
});
