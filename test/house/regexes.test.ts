import { check } from 'recheck';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { allSources, parse, type Source } from './sources.ts';

/** Every regular expression that is written out in a file, and where. */
function regexesIn(
  source: Source,
): { readonly at: string; readonly pattern: string; readonly flags: string }[] {
  const file = parse(source);
  const found: ReturnType<typeof regexesIn> = [];
  const visit = (node: ts.Node): void => {
    if (ts.isRegularExpressionLiteral(node)) {
      const end = node.text.lastIndexOf('/');
      const { line } = file.getLineAndCharacterOfPosition(node.getStart());
      const at = `${source.path}:${line + 1}`;
      found.push({ at, pattern: node.text.slice(1, end), flags: node.text.slice(end + 1) });
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

const slow = async (sources: readonly Source[]): Promise<string[]> => {
  const found: string[] = [];
  for (const { at, pattern, flags } of sources.flatMap(regexesIn)) {
    const diagnosis = await check(pattern, flags, { timeout: 20_000 });
    const why = diagnosis.status === 'vulnerable' ? diagnosis.complexity.summary : diagnosis.status;
    if (why !== 'safe') found.push(`${at} /${pattern}/${flags}: ${why}`);
  }
  return found;
};

describe('regular expressions', () => {
  it('All regular expressions in src take time in proportion to their input', async () => {
    expect(await slow(allSources())).toEqual([]);
  });

  it('The check reports regular expressions that take more than linear time', async () => {
    const text = 'const a = /^-+|-+$/g;\nconst b = /^(a+)+$/;\nconst c = /^a+$/;';
    expect(await slow([{ path: 'x.ts', text }])).toEqual([
      'x.ts:1 /^-+|-+$/g: 2nd degree polynomial',
      'x.ts:2 /^(a+)+$/: exponential',
    ]);
  });
});
