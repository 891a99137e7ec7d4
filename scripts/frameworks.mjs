// docs/frameworks.md: its table, made of what the tests in compat/servers have found, and its code, which is that of the examples.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { root } from './steps.mjs';

export const PAGE = 'docs/frameworks.md';
const KEPT = `${root}compat/servers/results.json`;
const FOUND = `${root}compat/servers/.work/results`;

const COLUMNS = ['stock-jar', 'stock-ask', 'valise-jar', 'valise-ask'];
const HEAD = [
  '| framework | state, stock client | question, stock client | state, client with Valise | question, client with Valise |',
  '|---|---|---|---|---|',
];
const TABLE = /(<!-- table: made by scripts\/frameworks\.mjs -->\n)[\s\S]*?(<!-- end of table -->)/;
const BLOCK = /(```ts ([\w-]+)\.ts by=compat\/\S+\n)[\s\S]*?(```\n)/g;

/**
 * @typedef {{ name: string, versions: string[], cells: Record<string, string> }} Result
 */

/** What the last run with `--write` has found. @returns {Result[]} */
export function keptResults() {
  return JSON.parse(readFileSync(KEPT, 'utf8'));
}

/** The page as it has to be, with these results and the examples as they are. */
export function pageWith(text, results) {
  const rows = results.flatMap(row);
  return text
    .replace(TABLE, (_, begin, end) => `${begin}${[...HEAD, ...rows].join('\n')}\n${end}`)
    .replace(BLOCK, (_, begin, name, end) => `${begin}${example(name)}\n${end}`);
}

/** The examples that the page does not show. */
export function notShown(text) {
  const shown = [...text.matchAll(BLOCK)].map(([, , name]) => `${name}.ts`);
  return readdirSync(`${root}examples/frameworks`).filter((file) => !shown.includes(file));
}

/** Compares what a whole run has found with what is kept, or keeps it. Returns what is stale, a sentence each. */
export function settle(write) {
  const found = foundResults();
  if (write) {
    writeFileSync(KEPT, `${JSON.stringify(found, undefined, 2)}\n`);
    writeFileSync(root + PAGE, pageWith(readFileSync(root + PAGE, 'utf8'), found));
    return [];
  }
  const kept = existsSync(KEPT) ? readFileSync(KEPT, 'utf8') : '';
  const page = readFileSync(root + PAGE, 'utf8');
  const next = 'Run `npm run compat -- servers --write`.';
  return [
    ...(JSON.stringify(found) === JSON.stringify(kept === '' ? [] : JSON.parse(kept))
      ? []
      : [`compat/servers/results.json is not what the tests have found. ${next}`]),
    ...(pageWith(page, found) === page ? [] : [`${PAGE} is stale. ${next}`]),
  ];
}

/** @returns {Result[]} */
function foundResults() {
  const order = readFileSync(`${root}compat/servers/frameworks.ts`, 'utf8');
  const names = existsSync(FOUND) ? readdirSync(FOUND) : [];
  return names
    .map((name) => JSON.parse(readFileSync(`${FOUND}/${name}`, 'utf8')))
    .sort((a, b) => order.indexOf(`name: '${a.name}'`) - order.indexOf(`name: '${b.name}'`));
}

function row({ name, versions, cells }) {
  const values = COLUMNS.map((column) => cells[column] ?? 'not tested');
  // A long reason once is enough.
  if (values[0] !== 'works' && values.every((value) => value === values[0])) values.fill('the same', 1);
  const first = `${name}<br>${versions.join(', ')}`;
  return `| ${[first, ...values].join(' | ')} |`;
}

function example(name) {
  return readFileSync(`${root}examples/frameworks/${name}.ts`, 'utf8').trimEnd();
}
