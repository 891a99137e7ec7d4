#!/usr/bin/env node
// Writes the fault table measured by `npm run test:soak` (.cache/faults.json) into docs/reliability.md, between its markers.
import { readFileSync, writeFileSync } from 'node:fs';
import { root } from './steps.mjs';

const PAGE = `${root}docs/reliability.md`;
const HEAD = [
  'fault',
  'calls',
  'failed',
  'lost',
  'doubled',
  'wrong client',
  'longest call',
  'heals by itself',
];

function table(rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  const body = rows.map((row) =>
    line([
      row.fault,
      row.calls,
      row.failed,
      row.promised ? row.lost : `${row.lost} (not promised)`,
      row.doubled,
      row.wrongClient,
      `${(row.longestMs / 1000).toFixed(1)} s`,
      row.heals ? `yes, ${(row.healMs / 1000).toFixed(1)} s` : 'no',
    ]),
  );
  return [line(HEAD), line(HEAD.map(() => '---')), ...body].join('\n');
}

function render({ on, cores, versions, rows }) {
  const engines = [...new Set(rows.map(({ engine }) => engine))];
  const measured = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  return [
    `Measured on ${on}: ${measured.join(', ')}; ${cores} cores, loopback.`,
    ...engines.map((engine) => `### ${engine}\n\n${table(rows.filter((row) => row.engine === engine))}`),
  ].join('\n\n');
}

const report = JSON.parse(readFileSync(`${root}.cache/faults.json`, 'utf8'));
const page = readFileSync(PAGE, 'utf8');
const between = /(<!-- faults -->\n)[\s\S]*?(\n<!-- \/faults -->)/;
if (!between.test(page)) throw new Error('docs/reliability.md has lost the markers of the fault table.');
writeFileSync(
  PAGE,
  page.replace(between, (_, begin, end) => `${begin}\n${render(report)}\n${end}`),
);
console.log(`docs/reliability.md: ${report.rows.length} rows`);
