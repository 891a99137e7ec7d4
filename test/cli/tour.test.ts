import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { isRunning } from './is-running.ts';
import { VALISE, valise } from './valise.ts';

/** The tour starts a dozen processes. */
const PATIENCE = 180_000;

interface Line {
  readonly type: 'story' | 'step' | 'event' | 'claim' | 'summary';
  readonly story?: string;
  readonly from?: string;
  readonly to?: string;
  readonly what?: string;
  readonly carried?: readonly { readonly what: string; readonly value?: unknown; readonly sealed?: object }[];
  readonly message?: Record<string, unknown>;
  readonly claim?: string;
  readonly held?: boolean;
}

async function tour(...args: string[]): Promise<{ code: number | null; lines: Line[]; stdout: string }> {
  const { code, stdout, stderr } = await valise(['tour', '--json', ...args]);
  expect(stderr).toBe('');
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);
  return { code, lines, stdout };
}

const ofType = (lines: readonly Line[], type: Line['type']): Line[] =>
  lines.filter((line) => line.type === type);

describe('valise tour', () => {
  it('tells four stories, and every claim holds', { timeout: PATIENCE }, async () => {
    const { code, lines, stdout } = await tour();
    expect(ofType(lines, 'claim').filter(({ held }) => !held)).toEqual([]);
    expect(code).toBe(0);
    expect(ofType(lines, 'story').map(({ story }) => story)).toEqual(['cart', 'bug', 'notebook', 'resume']);
    for (const name of ['cart', 'bug', 'notebook', 'resume'])
      expect(ofType(lines, 'claim').filter(({ story }) => story === name).length).toBeGreaterThan(2);
    const claims = ofType(lines, 'claim').length;
    expect(lines.at(-1)).toMatchObject({ type: 'summary', held: true, claims, failed: 0 });

    const bug = ofType(lines, 'step').filter(({ story }) => story === 'bug');
    expect(bug.filter(({ what }) => what === 'question')).toHaveLength(2);
    const instances = bug.filter(({ from }) => from === 'client').map(({ to }) => to);
    expect(new Set(instances)).toEqual(new Set(['instance A', 'instance B', 'instance C']));
    expect(ofType(lines, 'event').map(({ what }) => what)).toContainEqual(
      expect.stringMatching(/^instance B .* is killed with SIGKILL/),
    );

    // What is sealed, or a secret, is shown by its fingerprint and nowhere else.
    expect(stdout).not.toMatch(/v1\.[\w-]{8}\.[\w-]{20}/);
    expect(stdout).not.toMatch(/Bearer/i);
  });

  it('tells one story where one is named, in lanes for people', { timeout: PATIENCE }, async () => {
    const { code, stdout } = await valise(['tour', '--story', 'cart']);
    expect(code).toBe(0);
    expect(stdout.match(/^━━ .*$/gm)).toEqual(['━━ A cart that the client carries (--story cart)']);
    expect(stdout).toMatch(/^ {2}client +instance A$/m);
    expect(stdout).toMatch(/^ {2}├─ tools\/call ─+▶│$/m);
    expect(stdout).toMatch(/^ {2}│◀─+ result ─┤$/m);
    expect(stdout).toMatch(
      /^ {2}│ +◆ session state "Cart Contents": \{"items":\["cucumber"\],"price":40\}$/m,
    );
    expect(stdout).toMatch(/^ {2}│ +◆ server state "address": sealed #[0-9a-f]{8} \(\d+ B\)$/m);
    expect(stdout.match(/^ {2}✓ /gm)).toHaveLength(3);
    expect(stdout).toMatch(/^✓ All 3 claims held: 1 story in [\d.]+ s\.$/m);
    expect(stdout).not.toContain('\u001b');
  });

  it('ends with 1 where a claim did not hold, and says which', { timeout: PATIENCE }, async () => {
    // A store in memory is shared by no two instances: the second one cannot know the session.
    const { code, lines } = await tour('--story', 'notebook', '--store', 'memory:');
    expect(code).toBe(1);
    expect(ofType(lines, 'claim').some(({ held }) => held === false)).toBe(true);
    expect(lines.at(-1)).toMatchObject({ type: 'summary', held: false });
    const told = await valise(['tour', '--story', 'cart', '--store', 'nowhere:']);
    expect(told.code).toBe(1);
    expect(told.stdout).toMatch(/^ {2}✗ the story can be told to its end: .*nowhere/m);
    expect(told.stdout).toMatch(/^✗ 1 of 1 claims did not hold/m);
  });

  it('says which stories there are', async () => {
    const { code, stderr } = await valise(['tour', '--story', 'nothing']);
    expect(code).toBe(2);
    expect(stderr).toContain('cart, bug, notebook, resume');
  });

  it('leaves no process behind when it is interrupted', { timeout: PATIENCE }, async () => {
    const child = spawn(process.execPath, [VALISE, 'tour', '--story', 'bug', '--json', '--slow'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    const pids: number[] = [];
    for await (const line of createInterface({ input: child.stdout })) {
      const pid = /is process (\d+)/.exec((JSON.parse(line) as Line).what ?? '')?.[1];
      if (pid !== undefined) pids.push(Number(pid));
      if (pids.length === 3) break;
    }
    const ended = once(child, 'exit');
    child.kill('SIGINT');
    expect(await ended).toEqual([130, null]);
    await vi.waitFor(() => expect(pids.filter(isRunning)).toEqual([]), { timeout: 10_000 });
  });
});
