#!/usr/bin/env node
// `npm run trace`: prints each row of the ledger with its tests, from the last full run of `npm test`. Fails if a row of a
// family in spec/claimed.json is not proved. `--missing` omits proved rows; `--json` prints JSON.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { readClaimed, readLedger, trace, WORDS } from './ledger.mjs';
import { FULL_REPORT, readReport } from './results.mjs';
import { root } from './steps.mjs';

const { values } = parseArgs({ options: { json: { type: 'boolean' }, missing: { type: 'boolean' } } });
const report = readReport(FULL_REPORT);
if (!report) {
  console.error('There are no test results to trace. Run `npm test` first.');
  process.exit(2);
}

const ledger = readLedger(readFileSync(`${root}spec/requirements.md`, 'utf8'));
const claimed = readClaimed(`${root}spec/claimed.json`);
const { rows, problems } = trace(ledger, report.tests, claimed);
problems.push(...report.broken.map((file) => `${file}: could not be loaded, so its tests prove nothing`));

if (values.json) {
  console.log(JSON.stringify({ claimed, rows, problems }));
} else {
  for (const row of rows) {
    if (values.missing && row.state === 'proved') continue;
    console.log(`${row.id}  ${row.level.padEnd(10)}  ${WORDS[row.state]}`);
    for (const test of row.tests) {
      const why = test.status === 'passed' || !test.skipReason ? '' : ` (${test.skipReason})`;
      console.log(`        ${test.status.padEnd(7)} ${test.file} › ${test.title}${why}`);
    }
  }
  const proved = rows.filter(({ state }) => state === 'proved').length;
  console.log(`\n${proved} of ${rows.length} rows proved; claimed: ${claimed.join(', ') || 'none yet'}.`);
  for (const problem of problems) console.log(`✗ ${problem}`);
}
process.exitCode = problems.length > 0 ? 1 : 0;
