#!/usr/bin/env node
// Generates the tables of docs/errors.md from src/core/error-codes.ts. `node scripts/errors-doc.mjs` writes them; the test
// test/docs/errors.test.ts compares.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const source = new URL('../src/core/error-codes.ts', import.meta.url);
const page = new URL('../docs/errors.md', import.meta.url);
const START = '<!-- codes -->';
const END = '<!-- end of codes -->';

/**
 * Returns the page with its tables renewed.
 * @param {string} text the page
 * @param {Record<string, readonly [string, string]>} codes
 */
export function withCodes(text, codes) {
  const [before] = text.split(START);
  const [, after] = text.split(END);
  return `${before}${START}\n${tables(codes)}\n${END}${after}`;
}

/** A table for each section; a section starts at a comment between the entries. */
function tables(codes) {
  const lines = readFileSync(source, 'utf8').split('\n');
  const sections = [];
  for (const line of lines) {
    const title = /^ {2}\/\/ (.*)$/.exec(line)?.[1];
    if (title) sections.push({ title, names: [] });
    const name = /^ {2}'?([a-z-]+)'?: \[/.exec(line)?.[1];
    if (name) sections.at(-1)?.names.push(name);
  }
  const row = (name) =>
    `| \`${name}\` | ${codes[name].map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return sections
    .map(
      ({ title, names }) =>
        `\n## ${title}\n\n| code | cause | fix |\n|---|---|---|\n${names.map(row).join('\n')}\n`,
    )
    .join('');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { default: ts } = await import('typescript');
  const { outputText } = ts.transpileModule(readFileSync(source, 'utf8'), {
    compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 },
  });
  const { ERROR_CODES } = await import(`data:text/javascript,${encodeURIComponent(outputText)}`);
  writeFileSync(page, withCodes(readFileSync(page, 'utf8'), ERROR_CODES));
}
