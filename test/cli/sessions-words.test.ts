import { join } from 'node:path';
import { generateKey } from 'mcp-valise/seal';
import { expect, it, onTestFinished } from 'vitest';
import { startHttp } from '../e2e/example.ts';
import { folder, serveExample, valise, valiseJson } from './valise.ts';

type Listed = { id: string; label?: string; isKept: boolean; isListed: boolean };

const storeHere = async () => ['--store', `sqlite:${join(await folder(), 'state.db')}`];

it('lists a session that is kept also where its server lists none, under an id that can be pasted', async () => {
  const { url } = await serveExample(['notebook'], { VALISE_KEYS: generateKey() });
  const store = await storeHere();
  const note = JSON.stringify({ text: 'one' });
  expect((await valise(['call', url, 'notebook_append', note, '--session', 'mine', ...store])).code).toBe(0);
  for (const at of [[], [url]]) {
    const { stdout } = await valise(['sessions', 'list', ...at, ...store]);
    const id = /^(sess-\S+) +mine /m.exec(stdout)?.[1] ?? 'none';
    expect((await valise(['sessions', 'show', id, ...store])).stdout).toContain(`session  ${id}\n`);
  }
  const { sessions } = await valiseJson<{ sessions: Listed[] }>(['sessions', 'list', url, ...store]);
  expect(sessions).toMatchObject([{ label: 'mine', isKept: true, isListed: false }]);
  expect(await valise(['sessions', 'delete', sessions[0]!.id, url, ...store])).toMatchObject({ code: 0 });
  expect(await valise(['sessions', 'delete', 'mine', url, ...store])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('The server does not know the session "mine".'),
  });
});

it('ends a session that only the server knows', async () => {
  const keys = generateKey();
  // One process for all calls, and one user for all of them.
  const server = await startHttp('greeter', ['--one-user'], { VALISE_KEYS: keys });
  onTestFinished(async () => void (await server.stop('SIGTERM')));
  const url = server.url.href;
  const [here, elsewhere] = [await storeHere(), await storeHere()];
  expect((await valise(['call', url, 'count', '--session', 'theirs', ...elsewhere])).code).toBe(0);
  const list = async () =>
    (await valiseJson<{ sessions: Listed[] }>(['sessions', 'list', url, ...here])).sessions;
  expect(await list()).toMatchObject([{ label: 'theirs', isKept: false, isListed: true }]);
  expect(await valise(['sessions', 'delete', 'theirs', ...here])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('valise sessions list TARGET'),
  });
  expect((await valise(['sessions', 'delete', 'theirs', url, ...here])).stdout).toBe('deleted\n');
  expect(await list()).toEqual([]);

  // What its owner is told, and that the next call finds its way by itself.
  const gone = await valise(['call', url, 'count', '--session', 'theirs', ...elsewhere]);
  expect(gone).toMatchObject({ code: 1, stderr: expect.stringContaining('call again') });
  expect(gone.stderr).not.toContain('onGone');
  expect((await valise(['call', url, 'count', '--session', 'theirs', ...elsewhere])).code).toBe(0);
});

it('[S-12] ends a new session with its call, and after its pending round', async () => {
  const server = await startHttp('greeter', ['--one-user'], { VALISE_KEYS: generateKey() });
  onTestFinished(async () => void (await server.stop('SIGTERM')));
  const url = server.url.href;
  const store = await storeHere();
  const open = async () =>
    (await valiseJson<{ sessions: Listed[] }>(['sessions', 'list', url, ...store])).sessions.length;
  expect((await valise(['call', url, 'count', '--session', 'new', ...store])).code).toBe(0);
  expect(await open()).toBe(0);
  const { pending } = await valiseJson<{ pending: string }>([
    'call',
    url,
    'greet_gated',
    '--session',
    'new',
    ...store,
  ]);
  expect(await open()).toBe(1);
  expect(await valise(['pending', 'answer', pending, '--answer', 'name=Ada', ...store])).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^Hello Ada of sess-/),
  });
  expect(await open()).toBe(0);
});

it('says what to do about a session in words of the command line', async () => {
  const { url } = await serveExample(['notebook']);
  const call = (...more: string[]) => valise(['call', url, 'notebook_read', ...more, '--store', 'memory:']);
  expect(await call()).toMatchObject({ code: 1, stderr: expect.stringContaining('Add --session NAME.') });
  const empty = await call('--session', '');
  expect(empty.stderr).toContain('--session has an empty name. Give it a name, or write new or none.');
  expect(empty.code).not.toBe(0);
});
