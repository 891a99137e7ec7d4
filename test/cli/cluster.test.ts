import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { folder, VALISE, valise } from './valise.ts';

const bug = JSON.stringify({ workItemId: 4522, fields: { 'System.State': 'Resolved' } });

describe('valise cluster', () => {
  it('[R-12] resolves a bug over two questions although each instance that asks is killed', async () => {
    const child = spawn(process.execPath, [
      VALISE,
      'cluster',
      'work-items',
      '--instances',
      '3',
      '--http',
      '0',
      '--kill-between-rounds',
    ]);
    onTestFinished(async () => {
      const gone = once(child, 'close');
      child.kill('SIGTERM');
      await gone;
    });
    let said = '';
    const until = (pattern: RegExp) =>
      new Promise<RegExpExecArray>((resolve) => {
        const look = (): void => {
          const found = pattern.exec(said);
          if (found) resolve(found);
        };
        child.stdout.on('data', look);
        look();
      });
    child.stdout.on('data', (chunk) => (said += chunk));
    const url = (await until(/^listening on (\S+)/m))[1] as string;
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    const answers = ['--answer', 'resolution=Duplicate', '--answer', 'duplicateOfId=4301'];
    for (const extra of [[], ['--era', 'legacy']]) {
      const result = await valise(['call', url, 'update_work_item', bug, ...answers, ...extra, ...store]);
      expect(result).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('resolved as Duplicate of Bug #4301'),
      });
    }
    await until(/killed.*killed/s);
  });
});

describe('valise completion', () => {
  it.each(['bash', 'zsh', 'fish'])('completes commands and options in %s', async (shell) => {
    const { stdout, code } = await valise(['completion', shell]);
    expect(code).toBe(0);
    for (const word of ['call', 'doctor', '--resolve', 'work-items']) expect(stdout).toContain(word);
  });
});
