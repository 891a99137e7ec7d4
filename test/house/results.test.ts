import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { lastLine, readReport } from '../../scripts/results.mjs';
import { root } from './sources.ts';

const folder = mkdtempSync(join(tmpdir(), 'valise-results-'));
afterAll(() => rmSync(folder, { recursive: true }));

const report = (text: string) => {
  const path = join(folder, 'report.json');
  writeFileSync(path, text);
  return readReport(path);
};
const result = (name: string, status: string, ...statuses: string[]) => ({
  name: `${root}${name}`,
  status,
  startTime: 1000,
  endTime: 3500,
  assertionResults: statuses.map((state, index) => ({
    fullName: `test ${index}`,
    status: state,
    duration: 5,
  })),
});

describe('the test report', () => {
  it('The test report counts passed and failed tests, and the rest as skipped', () => {
    const testResults = [
      result('test/a.test.ts', 'failed', 'passed', 'failed', 'skipped', 'todo', 'pending'),
    ];
    expect(report(JSON.stringify({ testResults }))).toMatchObject({
      passed: 1,
      failed: 1,
      skipped: 3,
      files: [{ file: 'test/a.test.ts', ms: 2500 }],
    });
  });

  it('The test report counts a file that could not be loaded as one failure', () => {
    const testResults = [result('test/a.test.ts', 'passed', 'passed'), result('test/b.test.ts', 'failed')];
    expect(report(JSON.stringify({ testResults }))).toMatchObject({
      passed: 1,
      failed: 1,
      skipped: 0,
      broken: ['test/b.test.ts'],
    });
  });

  it('The test report says why a test was skipped if the test says so', () => {
    const testResults = [result('test/a.test.ts', 'passed', 'skipped', 'skipped')];
    Object.assign(testResults[0]!.assertionResults[0]!, { meta: { skipReason: 'needs tmux' } });
    const { tests } = report(JSON.stringify({ testResults }))!;
    expect(tests.map(({ skipReason }) => skipReason)).toEqual(['needs tmux', undefined]);
  });

  it('The test report is undefined if it is missing or cut off', () => {
    expect(readReport(join(folder, 'nothing.json'))).toBeUndefined();
    expect(report('{"testResults": [')).toBeUndefined();
  });

  it('The test report ends in one line', () => {
    expect(lastLine({ passed: 3, failed: 0 })).toBe('3 passed, 0 failed');
    expect(lastLine({ passed: 3, failed: 1, skipped: 2 })).toBe('3 passed, 1 failed, 2 skipped');
  });
});
