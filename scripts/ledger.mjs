// Reads the ledger (spec/requirements.md) and the families claimed as done (spec/claimed.json), and matches them with tests.
import { readFileSync } from 'node:fs';

/**
 * @typedef {{ id: string, family: string, level: string, says: string }} Row
 * @typedef {'proved' | 'failing' | 'unexplained' | 'skipped' | 'none'} State
 * @typedef {Row & { state: State, tests: import('./results.mjs').Test[], owed: boolean }} TracedRow
 */

const ROW = /^\|\s*([A-Z]-\d\d)\s*\|([^|]*)\|((?:\\\||`[^`]*`|[^|])*)\|/;
const BRACKET = /\[([^\]]*)\]/g;
const ID = /\b[A-Z]-\d\d\b/g;

/**
 * Returns the rows of the ledger, in order.
 * @param {string} markdown
 * @returns {Row[]}
 */
export function readLedger(markdown) {
  const rows = markdown.split('\n').flatMap((line) => {
    const match = ROW.exec(line);
    return match
      ? [{ id: match[1], family: match[1][0], level: match[2].trim(), says: match[3].trim() }]
      : [];
  });
  const twice = rows.find((row, index) => rows.findIndex(({ id }) => id === row.id) !== index);
  if (twice) throw new Error(`${twice.id} is in the ledger twice; give one of the two rows another id.`);
  return rows;
}

/**
 * Returns the families that the project claims as done.
 * @param {string} path
 * @returns {string[]}
 */
export function readClaimed(path) {
  return JSON.parse(readFileSync(path, 'utf8')).claimed;
}

/**
 * Returns the ids that a test's title names in brackets: `[J-05] …`, `[J-05, J-06] …`.
 * @param {string} title
 * @returns {string[]}
 */
export function idsIn(title) {
  return [...title.matchAll(BRACKET)].flatMap(([, inside]) => inside.match(ID) ?? []);
}

/**
 * Matches rows with tests. Every row of a claimed family needs a proof, whatever its level.
 * @param {readonly Row[]} rows
 * @param {readonly import('./results.mjs').Test[]} tests
 * @param {readonly string[]} claimed
 */
export function trace(rows, tests, claimed) {
  /** @type {Map<string, import('./results.mjs').Test[]>} */
  const byId = new Map(rows.map(({ id }) => [id, []]));
  const unknown = new Set();
  for (const test of tests) {
    for (const id of idsIn(test.title)) byId.get(id)?.push(test) ?? unknown.add(id);
  }
  const traced = rows.map((row) => {
    const own = byId.get(row.id) ?? [];
    return {
      ...row,
      tests: own,
      state: stateOf(own),
      owed: claimed.includes(row.family),
    };
  });
  const problems = [
    ...traced
      .filter(({ owed, state }) => owed && state !== 'proved')
      .map((row) => `${row.id} (${row.level}): ${WORDS[row.state]}`),
    ...[...unknown].sort().map((id) => `${id}: named by a test, but not in the ledger`),
    ...claimed
      .filter((family) => !rows.some((row) => row.family === family))
      .map((family) => `${family}: claimed, but not a family of the ledger`),
  ];
  return { rows: traced, problems };
}

/** @type {Record<State, string>} */
export const WORDS = {
  proved: 'proved',
  failing: 'a test of it fails',
  unexplained: 'a test of it is skipped without a reason',
  skipped: 'all its tests are skipped',
  none: 'no test',
};

/**
 * Returns the state of a row. It is proved if at least one of its tests passed, none failed, and each skipped one says why
 * (`meta.skipReason`).
 * @returns {State}
 */
function stateOf(tests) {
  if (tests.some(({ status }) => status === 'failed')) return 'failing';
  if (tests.some(({ status, skipReason }) => status !== 'passed' && !skipReason)) return 'unexplained';
  if (tests.length === 0) return 'none';
  return tests.some(({ status }) => status === 'passed') ? 'proved' : 'skipped';
}
