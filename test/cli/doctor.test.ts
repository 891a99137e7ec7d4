import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it } from 'vitest';
import { folder, serveExample, valise, valiseJson } from './valise.ts';

interface Report {
  readonly findings: readonly {
    readonly check: string;
    readonly status: string;
    readonly what: string;
    readonly fix?: string;
  }[];
}
const of = ({ findings }: Report, check: string) => findings.find((finding) => finding.check === check);

describe('valise doctor', () => {
  it('tells what a server offers in each era, and what is missing', async () => {
    const env = { VALISE_KEYS: generateKey() };
    const { url } = await serveExample(['notebook'], env);
    const report = await valiseJson<Report>(
      ['doctor', url, '--store', `sqlite:${join(await folder(), 'state.db')}`],
      env,
    );
    expect(of(report, 'keys')).toMatchObject({ status: 'ok' });
    expect(of(report, 'store')).toMatchObject({ status: 'ok' });
    expect(of(report, 'permissions')).toMatchObject({ status: 'ok' });
    expect(of(report, 'era legacy')).toMatchObject({
      status: 'ok',
      what: expect.stringContaining('2025-11-25'),
    });
    expect(of(report, 'era modern')).toMatchObject({
      status: 'ok',
      what: expect.stringContaining('2026-07-28'),
    });
    expect(of(report, 'sessions')).toMatchObject({
      status: 'ok',
      what: expect.stringContaining('legacy and modern'),
    });
    expect(of(report, 'clock')).toMatchObject({ status: 'ok' });
    expect(of(report, 'keychain')).toBeDefined();
  });

  it('fails with the fix for a weak key, a store that does not open and a file that others can read', async () => {
    const path = join(await folder(), 'state.db');
    await valise(['doctor', '--store', `sqlite:${path}`]);
    await chmod(path, 0o644);
    const open = await valise(['doctor', '--store', `sqlite:${path}`]);
    expect(open.code).toBe(1);
    expect(open.stdout).toContain(`chmod 600`);
    const weak = await valise(['doctor', '--store', 'memory:'], {
      VALISE_KEYS: Buffer.alloc(32, 1).toString('base64url'),
    });
    expect(weak).toMatchObject({ code: 1, stdout: expect.stringMatching(/FAIL +keys/) });
    expect(weak.stdout).toContain('valise keys generate');
    const unknown = await valise(['doctor', '--store', 'gopher://x']);
    expect(unknown).toMatchObject({ code: 1, stdout: expect.stringMatching(/FAIL +store/) });
  });

  it('says what to do about a target that is not there', async () => {
    const report = await valiseJson<Report>(['doctor', 'http://127.0.0.1:9/mcp', '--store', 'memory:']);
    expect(of(report, 'target')).toMatchObject({ status: 'fail', fix: expect.any(String) });
  });
});
