// Generates the table of docs/frameworks.md from the test results in compat/servers, and its code from the examples.
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

/** Returns the results of the last run with `--write`. @returns {Result[]} */
export function keptResults() {
  return JSON.parse(readFileSync(KEPT, 'utf8'));
}

/** Returns the page with these results and the current examples. */
export function pageWith(text, results) {
  const rows = results.flatMap(row);
  return text
    .replace(TABLE, (_, begin, end) => `${begin}${[...HEAD, ...rows].join('\n')}\n${end}`)
    .replace(BLOCK, (_, begin, name, end) => `${begin}${example(name)}\n${end}`);
}

/** Returns the examples that the page does not show. */
export function notShown(text) {
  const shown = [...text.matchAll(BLOCK)].map(([, , name]) => `${name}.ts`);
  return readdirSync(`${root}examples/frameworks`).filter((file) => !shown.includes(file));
}

/** Compares the results of a complete run with the stored ones, or stores them. Returns what is stale, one sentence each. */
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
  // A long reason is printed only once.
  if (values[0] !== 'works' && values.every((value) => value === values[0])) values.fill('the same', 1);
  const first = `${name}<br>${versions.join(', ')}`;
  return `| ${[first, ...values].join(' | ')} |`;
}

function example(name) {
  return readFileSync(`${root}examples/frameworks/${name}.ts`, 'utf8').trimEnd();
}
