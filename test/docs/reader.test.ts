import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { root } from '../house/sources.ts';
import { readBlocks } from './blocks.ts';
import { anchorOf, linksOf } from './links.ts';

/** What a new reader wants to do, and what the code that does it must use. */
const TASKS: readonly (readonly [task: string, uses: RegExp])[] = [
  ["remember a user's language", /jar\.server\.set\('language'/],
  ['ask before deleting', /flow\.(ask|confirm)\(/],
  ['share a session between two agents', /sessions\(client\)\.named\(/],
  ['run on three instances', /\['a', 'b', 'c'\]/],
  ['keep users signed in', /auth: \{\s+redirect:/],
  ['rotate keys', /valise keys rotate --phase promote/],
  ['debug a lost session', /SessionGoneError/],
  ['use it in Next.js', /createMcpHandler|mcp-handler/],
  ['use it in the AI SDK', /createMCPClient|experimental_createMCPClient/],
  ['write a store', /: Store \{/],
];

/** The code blocks of a page that follow a heading, up to the next one of its level. */
function blocksUnder(page: string, anchor: string) {
  const text = readFileSync(root + page, 'utf8');
  const lines = text.split('\n');
  const levelOf = (line: string) => /^(#+) /.exec(line)?.[1]?.length ?? 0;
  const start = lines.findIndex((line) => levelOf(line) > 0 && anchorOf(line) === anchor);
  let fenced = false;
  const end = lines.findIndex((line, index) => {
    if (line.startsWith('```')) fenced = !fenced;
    return index > start && !fenced && levelOf(line) > 0 && levelOf(line) <= levelOf(lines[start] ?? '');
  });
  const last = end === -1 ? lines.length : end;
  return readBlocks(page, text).filter(({ line }) => line > start && line <= last);
}

describe('the path of a new reader', () => {
  it.each(TASKS)(
    'A new reader who wants to %s gets from README in two clicks to code that the tests run',
    (task, uses) => {
      const found = linksOf('README.md')
        .flatMap(({ path }) => (path.endsWith('.md') && existsSync(root + path) ? linksOf(path) : []))
        .filter(({ line }) => line.includes(task));
      expect(found).not.toEqual([]);
      const { path, anchor } = found[0]!;
      const code = blocksUnder(path, anchor).filter(({ code }) => uses.test(code));
      expect(code).not.toEqual([]);
      // Without `by`, test/docs/docs.test.ts runs the block; otherwise the block or test that it names does.
      for (const { by } of code)
        if (by && /^(test|compat)\//.test(by)) expect(existsSync(root + by)).toBe(true);
    },
  );
});
