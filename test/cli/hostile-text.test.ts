import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { folder, serveExample, valise, valiseJson } from './valise.ts';

const odd = `stdio:${process.execPath} ${fileURLToPath(new URL('odd-server.mjs', import.meta.url))}`;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;

describe('text of servers on a terminal', { timeout: 60_000 }, () => {
  it('has its control characters spelled out, in results, lists and tables', async () => {
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    const called = await valise(['call', odd, 'first', ...store]);
    expect(called).toMatchObject({ code: 0, stdout: 'one\n\ttwo\\u001b[2J\\u009b1m\n' });
    const jar = await valise(['jar', ...store]);
    expect(jar.stdout.trim().split('\n')).toHaveLength(2);
    const shown = await valise(['jar', 'show', odd, ...store]);
    const listed = await valise(['list', odd, ...store]);
    const raw = await valise(['call', odd, 'first', '--json', ...store]);
    for (const { stdout, stderr } of [called, jar, shown, listed, raw]) {
      expect(stdout).not.toBe('');
      expect(stdout).not.toMatch(CONTROLS);
      expect(stderr).not.toMatch(CONTROLS);
    }
    const { content } = JSON.parse(raw.stdout) as { content: readonly { readonly text: string }[] };
    expect(content[0]?.text).toBe('one\n\ttwo\u001b[2J\u009b1m');
  });

  it.each(['v1', 'v2'])('lists all pages of tools (%s)', async (sdk) => {
    const { tools } = await valiseJson<{ tools: readonly { readonly name: string }[] }>([
      'list',
      odd,
      '--sdk',
      sdk,
      '--store',
      'memory:',
    ]);
    expect(tools.map(({ name }) => name)).toEqual(['first', 'second']);
  });

  it('says what state was not kept, in one line each', async () => {
    const { stderr } = await valise(['call', odd, 'first', '--store', 'memory:']);
    expect(stderr).toMatch(/^valise: state "large" of \S+ was not kept: .+\n$/m);
  });

  it('says of ten pieces of state that they had to go, and then that there are more', async () => {
    const { code, stderr } = await valise(['call', odd, 'many', '--store', 'memory:']);
    const lines = stderr.trim().split('\n');
    expect(code).toBe(0);
    expect(lines).toHaveLength(11);
    expect(lines[0]).toMatch(/^valise: state "k0" of \S+ had to go: the jar is full \(keysPerServer\)\.$/);
    expect(lines[10]).toMatch(/^valise: more state of \S+ was not kept\.$/);
  });

  it('says once that nothing is kept for a server on this machine, and how to have it kept', async () => {
    const { url } = await serveExample(['shop']);
    const args = ['call', url, 'remember', '{"name":"x","value":"1"}', '--store', 'memory:'];
    const { stderr } = await valise(args);
    expect(stderr.match(/--allow-local/g)).toHaveLength(1);
    expect(stderr).toContain('no state is kept for 127.0.0.1');
    // Not if it is kept, nor if no state is concerned.
    expect(await valise([...args, '--allow-local'])).toMatchObject({ code: 0, stderr: '' });
    expect(await valise(['list', url, '--store', 'memory:'])).toMatchObject({ code: 0, stderr: '' });
    const recall = ['call', url, 'recall', '{"name":"x"}', '--store', 'memory:'];
    expect(await valise(recall)).toMatchObject({ code: 0, stderr: '' });
  });

  it('says that a --resolve was of no use', async () => {
    const { url, port } = await serveExample(['shop']);
    const list = (...more: string[]) => valise(['list', url, '--store', 'memory:', ...more]);
    expect((await list('--resolve', 'bücher.example:443:127.0.0.1')).stderr).toContain(
      '--resolve xn--bcher-kva.example:443 was not used',
    );
    expect((await list('--resolve', `127.0.0.1:${port}:127.0.0.1`)).stderr).not.toContain('was not used');
    const failed = await valise(['list', 'http://x.invalid/', '--resolve', 'y.invalid:80:127.0.0.1']);
    expect(failed).toMatchObject({ code: 1, stderr: expect.stringContaining('y.invalid:80 was not used') });
  });
});
