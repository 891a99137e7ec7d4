// Reads vitest's JSON report and reduces it to what people and the trace need.
import { existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { root } from './steps.mjs';

/** Where a full test run writes its report, for `npm run trace`. */
export const FULL_REPORT = `${root}.cache/test-results.json`;

/**
 * @typedef {{ file: string, title: string, status: string, ms: number, skipReason?: string }} Test
 * @typedef {{ tests: Test[], passed: number, failed: number, skipped: number, files: { file: string, ms: number }[], broken: string[] }} Report
 */

/**
 * Reads a report. A file that could not be loaded has no tests and counts as one failure.
 * @param {string} path
 * @returns {Report | undefined} undefined if it does not exist or is truncated
 */
export function readReport(path) {
  const report = existsSync(path) ? parse(readFileSync(path, 'utf8')) : undefined;
  if (!report) return undefined;
  const tests = report.testResults.flatMap(testsOf);
  const isBroken = (file) => file.status === 'failed' && !file.assertionResults.some(isFailed);
  const broken = report.testResults.filter(isBroken).map(({ name }) => relative(root, name));
  const count = (status) => tests.filter((test) => test.status === status).length;
  const passed = count('passed');
  const failed = count('failed') + broken.length;
  const files = report.testResults.map((file) => ({
    file: relative(root, file.name),
    ms: file.endTime - file.startTime,
  }));
  return { tests, passed, failed, skipped: tests.length - passed - count('failed'), files, broken };
}

/**
 * Returns the last line of every run.
 * @param {{ passed: number, failed: number, skipped?: number }} counts
 */
export function lastLine({ passed, failed, skipped = 0 }) {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
}

/** @returns {Test[]} */
function testsOf({ name, assertionResults }) {
  const file = relative(root, name);
  return assertionResults.map(({ fullName, status, duration, meta }) => ({
    file,
    title: fullName,
    status,
    ms: duration ?? 0,
    ...(typeof meta?.skipReason === 'string' && { skipReason: meta.skipReason.trim() }),
  }));
}

function isFailed({ status }) {
  return status === 'failed';
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
