import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, it, onTestFinished } from 'vitest';
import { folder, serveExample, VALISE, valise } from './valise.ts';

const bug = JSON.stringify({ workItemId: 4522, fields: { 'System.State': 'Resolved' } });

/** Starts `valise cluster …`; it ends with the test. */
async function cluster(...args: string[]) {
  const child = spawn(process.execPath, [VALISE, 'cluster', ...args, '--http', '0']);
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
      for (const stream of [child.stdout, child.stderr]) stream.on('data', look);
      look();
    });
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (said += chunk));
  const url = (await until(/^listening on (\S+)/m))[1] as string;
  return { url, until, store: ['--store', `sqlite:${join(await folder(), 'state.db')}`] };
}

describe('valise cluster', () => {
  it.each([
    ['1', 'auto'],
    ['3', 'legacy'],
  ])(
    '[R-12] resolves a bug over two questions although each instance that asks is killed (of %s, --era %s)',
    async (instances, era) => {
      const { url, until, store } = await cluster(
        'work-items',
        '--instances',
        instances,
        '--kill-between-rounds',
      );
      const answers = ['--answer', 'resolution=Duplicate', '--answer', 'duplicateOfId=4301'];
      const call = ['call', url, 'update_work_item', bug, ...answers, '--era', era, ...store];
      expect(await valise(call)).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('resolved as Duplicate of Bug #4301'),
      });
      await until(/killed.*killed/s);
    },
  );

  it('gives sessions that are stored a store that all instances share', async () => {
    const { url, store } = await cluster('notebook', '--instances', '2', '--mode', 'stored');
    for (const text of ['one', 'two', 'three']) {
      const note = JSON.stringify({ text });
      const call = ['call', url, 'notebook_append', note, '--session', 'diary', ...store];
      expect(await valise(call)).toMatchObject({ code: 0 });
    }
    const read = await valise(['call', url, 'notebook_read', '--session', 'diary', ...store]);
    expect(read.stdout).toBe('one\ntwo\nthree\n');
  });

  it('leaves nothing behind if a signal ends it while it starts', async () => {
    const place = await folder();
    const child = spawn(
      process.execPath,
      [VALISE, 'cluster', 'notebook', '--instances', '4', '--mode', 'stored'],
      { env: { ...process.env, TMPDIR: place } },
    );
    let said = '';
    for await (const line of createInterface({ input: child.stdout })) {
      said += line;
      if (line.startsWith('store for all instances')) child.kill('SIGINT');
    }
    expect(said).not.toContain('listening');
    // Each instance names the store in that folder.
    expect(execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' })).not.toContain(place);
    expect(await readdir(place)).toEqual([]);
  });

  it.each([
    ['shop', '--mode', 'stored'],
    ['shop', '--with-auth'],
    ['notebook', '--forget-sessions'],
  ])('starts nothing with an option that the example does not have: %s %s', async (...args) => {
    const ran = await valise(['cluster', ...args, '--http', '0']);
    expect(ran).toMatchObject({ code: 2, stdout: '' });
    expect(ran.stderr).toContain(`The example ${args[0]} has no option ${args[1]}.`);
  });

  it('seals with the keys of --key-file, which others open', async () => {
    const keys = ['--key-file', join(await folder(), 'shop.env')];
    await valise(['keys', 'generate', '--out', keys[1] as string]);
    const { url, store } = await cluster('shop', '--instances', '2', ...keys);
    const call = (at: string, ...words: string[]) =>
      valise(['call', at, ...words, '--allow-local', ...store]);
    expect(await call(url, 'remember', '{"name":"size","value":"L"}')).toMatchObject({ code: 0 });
    const other = await serveExample(['shop', ...keys]);
    expect((await call(other.url, 'recall', '{"name":"size"}')).stdout).toBe('L\n');
  });

  it('passes on what its instances say', async () => {
    const { url, until } = await cluster('work-items', '--instances', '1');
    const headers = { 'content-type': 'application/json', 'mcp-session-id': 'v1.abcdefgh.zzzz' };
    expect((await fetch(url, { method: 'POST', headers, body: '{}' })).status).toBe(404);
    await until(/^instance 1: work-items: a transport session was not taken/m);
  });
});

describe('valise completion', () => {
  it.each(['bash', 'zsh', 'fish'])('completes commands and options in %s', async (shell) => {
    const { stdout, code } = await valise(['completion', shell]);
    expect(code).toBe(0);
    for (const word of ['call', 'doctor', '--resolve', 'work-items']) expect(stdout).toContain(word);
  });
});
