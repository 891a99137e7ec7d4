import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it, onTestFinished } from 'vitest';
import { VALISE, valise } from './valise.ts';

describe('valise example vault --token-ttl', () => {
  it.each(['abc', '-1', '0', '1.5', ''])('refuses what is no number of seconds: "%s"', async (ttl) => {
    const ran = await valise(['example', 'vault', '--http', '0', '--with-auth', `--token-ttl=${ttl}`]);
    expect(ran).toMatchObject({ code: 2, stdout: '' });
    expect(ran.stderr).toContain('Give a number of seconds, 1 or more.');
  });

  it('says that it is of no use without --with-auth', async () => {
    const ran = await valise(['example', 'vault', '--stdio', '--token-ttl', '60']);
    expect(ran).toMatchObject({ code: 0, stderr: expect.stringContaining('of no use without --with-auth') });
    expect((await valise(['example', 'vault', '--stdio'])).stderr).not.toContain('of no use');
  });
});

describe.each(['v1', 'v2'])('valise example --stdio --sdk %s', (sdk) => {
  it.each(['SIGTERM', 'SIGINT'] as const)('leaves on %s, also where its input stays open', async (signal) => {
    const child = spawn(process.execPath, [VALISE, 'example', 'shop', '--stdio', '--sdk', sdk]);
    onTestFinished(() => void child.kill('SIGKILL'));
    // It serves once it has answered.
    child.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n');
    await once(child.stdout, 'data');
    child.kill(signal);
    expect(await once(child, 'exit')).toEqual([0, null]);
  });
});
