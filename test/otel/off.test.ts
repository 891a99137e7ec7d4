import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { root } from '../house/sources.ts';

/** Lists the functions of `src/` that warm calls of four kinds run, and how often, by V8 coverage. */
const functionsRun = (...flags: string[]): string =>
  execFileSync(process.execPath, ['--import', 'tsx', 'test/house/hops.ts', '--list', ...flags], {
    cwd: root,
    encoding: 'utf8',
  });

describe('Telemetry that nobody collects', () => {
  it('adds no work to a call: the same functions run equally often, and none of src/otel', () => {
    const without = functionsRun();
    expect(without).not.toContain('otel/');
    expect(functionsRun('--telemetry')).toBe(without);
    // The measurement would notice: with an SDK, functions of src/otel run.
    expect(functionsRun('--telemetry-sdk')).toContain('otel/server.ts');
  }, 60_000);
});
