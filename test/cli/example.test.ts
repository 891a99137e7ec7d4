import { describe, expect, it } from 'vitest';
import { valise } from './valise.ts';

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
