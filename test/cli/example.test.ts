import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { folder, VALISE, valise } from './valise.ts';

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

describe('valise example --key-file', { timeout: 60_000 }, () => {
  it.each(['v1', 'v2'])('opens in one process on stdio what another has sealed (%s)', async (sdk) => {
    const path = await folder();
    const file = join(path, 'shop.env');
    await valise(['keys', 'generate', '--out', file]);
    const call = (tool: string, args: string, ...more: string[]) => {
      const words = [process.execPath, VALISE, 'example', 'shop', '--stdio', '--sdk', sdk, ...more];
      const store = ['--store', `sqlite:${join(path, 'state.db')}`];
      return valise(['call', `stdio:${words.join(' ')}`, tool, args, ...store]);
    };
    const keys = ['--key-file', file];
    const remembered = await call('remember', '{"name":"size","value":"L"}', ...keys);
    expect(remembered).toEqual({ code: 0, stdout: 'Remembered size.\n', stderr: '' });
    expect(await call('recall', '{"name":"size"}', ...keys)).toEqual({ code: 0, stdout: 'L\n', stderr: '' });
    const without = await call('recall', '{"name":"size"}');
    expect(without.stdout).toBe('Nothing is remembered as size.\n');
    expect(without.stderr).toContain('Give it --key-file PATH (made by: valise keys generate --out PATH)');
  });

  it('takes no file that others can read', async () => {
    const file = join(await folder(), 'shop.env');
    await valise(['keys', 'generate', '--out', file]);
    await chmod(file, 0o644);
    for (const command of [
      ['example', 'shop', '--stdio'],
      ['cluster', 'shop'],
    ])
      expect(await valise([...command, '--key-file', file])).toMatchObject({
        code: 1,
        stdout: '',
        stderr: expect.stringContaining(`chmod 600 ${file}`),
      });
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
