import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { idsIn, readClaimed, readLedger, trace } from '../../scripts/ledger.mjs';
import { root } from './sources.ts';

const LEDGER = `
| id | level | the seed says | we do |
|---|---|---|---|
| J-01 | MUST | one \`a|b\` | x |
| J-02 | MAY | two | |
| J-03 | MUST NOT | three | |
| R-01 | MUST | four | |
`;
const rows = readLedger(LEDGER);
const test = (title: string, status = 'passed', skipReason?: string) => ({
  file: 'test/a.test.ts',
  title,
  status,
  ms: 1,
  ...(skipReason && { skipReason }),
});

describe('the ledger', () => {
  it('The ledger has every row of spec/requirements.md, each id once', () => {
    const text = readFileSync(`${root}spec/requirements.md`, 'utf8');
    const ids = readLedger(text).map(({ id }) => id);
    expect(ids).toHaveLength(text.split('\n').filter((line) => /^\| *[A-Z]-\d/.test(line)).length);
    expect(new Set(ids.map((id) => id[0]))).toEqual(new Set(['J', 'R', 'S', 'C', 'I']));
  });

  it('The ledger reads id, level and text', () => {
    expect(rows[0]).toEqual({ id: 'J-01', family: 'J', level: 'MUST', says: 'one `a|b`' });
    expect(rows.map(({ level }) => level)).toEqual(['MUST', 'MAY', 'MUST NOT', 'MUST']);
  });

  it('The ledger refuses a duplicate id', () => {
    expect(() => readLedger(`${LEDGER}| J-01 | MAY | again | |\n`)).toThrow('J-01 is in the ledger twice');
  });

  it('The ledger claims only families that it has', () => {
    const families = new Set(
      readLedger(readFileSync(`${root}spec/requirements.md`, 'utf8')).map(({ family }) => family),
    );
    expect(readClaimed(`${root}spec/claimed.json`).filter((family) => !families.has(family))).toEqual([]);
  });
});

describe('the trace', () => {
  it('The trace finds one or several ids in brackets anywhere in a title', () => {
    expect(idsIn('[J-05] null deletes')).toEqual(['J-05']);
    expect(idsIn('the jar [J-05, J-06] on v1 [S-01]')).toEqual(['J-05', 'J-06', 'S-01']);
    expect(idsIn('J-05 without brackets, [no id], [J-5]')).toEqual([]);
  });

  it('The trace requires nothing if no family is claimed', () => {
    expect(trace(rows, [], []).problems).toEqual([]);
  });

  it('The trace fails for each row of a claimed family that has no passing test, whatever its level', () => {
    const { problems } = trace(rows, [test('[J-01] works')], ['J']);
    expect(problems).toEqual(['J-02 (MAY): no test', 'J-03 (MUST NOT): no test']);
    expect(trace(rows, [test('[J-01, J-02, J-03] works')], ['J']).problems).toEqual([]);
  });

  it('The trace does not count a row as proved if one of its tests fails', () => {
    expect(trace(rows, [test('[R-01] a', 'failed'), test('[R-01] b')], ['R']).problems).toEqual([
      'R-01 (MUST): a test of it fails',
    ]);
  });

  it.each(['skipped', 'todo', 'pending', 'disabled'])(
    'The trace does not count a row as proved if one of its tests is %s without a reason',
    (status) => {
      expect(trace(rows, [test('[R-01] a', status), test('[R-01] b')], ['R']).problems).toEqual([
        'R-01 (MUST): a test of it is skipped without a reason',
      ]);
    },
  );

  it('The trace accepts a test that is skipped with a reason, but not as the only proof', () => {
    const skipped = test('[R-01] a', 'skipped', 'needs tmux');
    expect(trace(rows, [skipped, test('[R-01] b')], ['R']).problems).toEqual([]);
    expect(trace(rows, [skipped], ['R']).problems).toEqual(['R-01 (MUST): all its tests are skipped']);
  });

  it('The trace names ids and families that the ledger does not know', () => {
    expect(trace(rows, [test('[J-99] lost')], ['X']).problems).toEqual([
      'J-99: named by a test, but not in the ledger',
      'X: claimed, but not a family of the ledger',
    ]);
  });

  it('The trace gives each row its tests', () => {
    const traced = trace(rows, [test('[J-01, J-02] both')], []).rows;
    expect(traced.map(({ id, state, tests }) => [id, state, tests.length])).toEqual([
      ['J-01', 'proved', 1],
      ['J-02', 'proved', 1],
      ['J-03', 'none', 0],
      ['R-01', 'none', 0],
    ]);
  });
});
