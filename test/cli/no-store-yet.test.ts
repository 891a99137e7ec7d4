import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { folder, valise } from './valise.ts';

/** Whether this machine has a keychain or not. */
const NO_KEYCHAIN = { DBUS_SESSION_BUS_ADDRESS: 'unix:path=/nowhere/bus' };

describe('a command that has nothing to keep, if there is no store yet', { timeout: 60_000 }, () => {
  it.each([
    ['jar list', { entries: [] }],
    ['jar show x.example.com', { entries: [] }],
    ['jar export', expect.objectContaining({ version: 1 })],
    ['jar clear --yes', { cleared: 0 }],
    ['status', { connections: [] }],
    ['pending list', { pending: [] }],
    ['pending drop x', { dropped: false }],
    ['sessions list', { sessions: [] }],
  ])('says so, and makes none: valise %s', async (command, output) => {
    const words = command.split(' ');
    const place = await folder();
    const path = join(place, 'mistyped', 'state');
    const said = `valise: There is no store in ${path} yet.\n`;
    const told = await valise([...words, '--json', '--store', `sqlite:${path}`]);
    expect(told.stderr).toBe(said);
    expect(JSON.parse(told.stdout)).toEqual(output);
    expect((await valise(words, { VALISE_STORE: `file:${path}` })).stderr).toBe(said);
    // Where nobody named one, nothing is missing.
    expect((await valise(words, { ...NO_KEYCHAIN, HOME: place })).stderr).toBe('');
    expect(await readdir(place)).toEqual([]);
  });

  it('signs out of nothing, and makes none', async () => {
    const place = await folder();
    const out = await valise(['logout', 'https://x.example.com/mcp'], { ...NO_KEYCHAIN, HOME: place });
    expect(out).toEqual({
      code: 1,
      stdout: 'Nothing was kept of https://x.example.com/mcp.\n',
      stderr: '',
    });
    expect(await readdir(place)).toEqual([]);
  });

  it('fails where the place cannot be looked at', async () => {
    const ran = await valise(['jar', '--store', `sqlite:${process.execPath}/state.db`]);
    expect(ran).toMatchObject({ code: 1, stdout: '', stderr: expect.not.stringContaining('yet') });
  });
});
