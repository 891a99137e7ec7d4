import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import { chmod, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createSealer, generateKey, parseKeys } from 'mcp-valise/seal';
import { openStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { plainFileStore } from '../../src/store/file/store.ts';
import { folder, valise, valiseJson } from './valise.ts';

describe('valise keys', () => {
  it('makes a key that a keyring takes', async () => {
    const { stdout, code } = await valise(['keys', 'generate']);
    expect(code).toBe(0);
    expect(parseKeys(stdout.trim()).kids).toHaveLength(1);
  });

  it('writes a key where only its owner can read it, and never over a file', async () => {
    const path = join(await folder(), 'valise.env');
    expect((await valise(['keys', 'generate', '--out', path])).code).toBe(0);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const before = await readFile(path, 'utf8');
    expect(await valise(['keys', 'generate', '--out', path])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('never written over'),
    });
    expect(await readFile(path, 'utf8')).toBe(before);
    const { keys } = await valiseJson<{ keys: unknown[] }>(['keys', 'list', '--key-file', path]);
    expect(keys).toEqual([{ kid: expect.any(String), seals: true }]);
  });

  it('rotates in three phases, none of which breaks a token', async () => {
    const old = generateKey();
    const phase = async (name: string, keys: string): Promise<string> =>
      (await valise(['keys', 'rotate', '--phase', name], { VALISE_KEYS: keys })).stdout.trim();
    const added = await phase('add', old);
    const promoted = await phase('promote', added);
    const dropped = await phase('drop', promoted);
    const sealers = [old, added, promoted, dropped].map((keys) => createSealer({ keys, audience: 'a' }));
    for (let at = 0; at < 3; at++) {
      const token = sealers[at]!.seal('kept', { purpose: 'p' });
      // Before the last phase a pause as long as a token lives: what the first two phases sealed with the old key is over then.
      if (at < 2) expect(sealers[at + 1]!.open(token, { purpose: 'p' })).toBe('kept');
      if (at > 0) expect(sealers[at - 1]!.open(token, { purpose: 'p' })).toBe('kept');
    }
    expect(sealers[3]!.open(sealers[2]!.seal('kept', { purpose: 'p' }), { purpose: 'p' })).toBe('kept');
    expect((await valise(['keys', 'rotate', '--phase', 'drop'], { VALISE_KEYS: old })).code).toBe(1);
  });

  it('says which keys stay and which go, and refuses to drop the new one', async () => {
    const path = await folder();
    const at = (name: string): string => join(path, name);
    const rotate = (phase: string, from: string, to: string) =>
      valise(['keys', 'rotate', '--phase', phase, '--key-file', at(from), '--out', at(to)]);
    const kids = async (name: string): Promise<string[]> =>
      (await valiseJson<{ keys: { kid: string }[] }>(['keys', 'list', '--key-file', at(name)])).keys.map(
        ({ kid }) => kid,
      );
    await valise(['keys', 'generate', '--out', at('0.env')]);
    await rotate('add', '0.env', '1.env');
    const [old, fresh] = await kids('1.env');
    expect(await rotate('drop', '1.env', 'no.env')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`The new key ${fresh} does not seal yet`),
    });
    expect((await rotate('promote', '1.env', '2.env')).stderr).toContain(`${fresh} seals; ${old} can open`);
    expect((await rotate('drop', '2.env', '3.env')).stderr).toContain(`${fresh} seals; ${old} is gone`);
    expect(await kids('3.env')).toEqual([fresh]);
    expect((await rotate('add', '3.env', '4.env')).code).toBe(0);
  });

  it.each([
    ['add', 'add', 'done already', 'promote'],
    ['add', 'drop', 'does not seal yet', 'promote'],
    ['promote', 'add', 'not next', 'drop'],
    ['promote', 'promote', 'done already', 'drop'],
    ['drop', 'promote', 'not next', 'add'],
    ['drop', 'drop', 'done already', 'add'],
  ])(
    'after %s refuses %s, which would undo or lose something, and names the next phase',
    async (last, phase, why, next) => {
      const file = join(await folder(), 'keys.env');
      const ring = [generateKey(), generateKey()].slice(last === 'drop' ? 1 : 0).join(',');
      await writeFile(file, `# valise keys rotate --phase ${last}\nVALISE_KEYS=${ring}\n`, { mode: 0o600 });
      const { code, stdout, stderr } = await valise(['keys', 'rotate', '--phase', phase, '--key-file', file]);
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toContain(why);
      expect(stderr).toContain(`valise keys rotate --phase ${next} --key-file ${file}`);
    },
  );

  it('says where it cannot tell in which phase a keyring is', async () => {
    const env = { VALISE_KEYS: [generateKey(), generateKey()].join(',') };
    const { stderr } = await valise(['keys', 'rotate', '--phase', 'promote'], env);
    expect(stderr).toContain('once only');
  });

  it('seals a store that was begun without keys, as the refusal and the doctor say', async () => {
    const store = `sqlite:${join(await folder(), 'state.db')}`;
    const plain = await openStore(store);
    await plain.put('a', 'as it was');
    await plain.close();
    const env = { VALISE_CLIENT_KEYS: generateKey() };
    const command = `valise keys seal --store ${store}`;
    expect(await valise(['status', '--store', store], env)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(command),
    });
    const doctor = async () =>
      (await valiseJson<{ findings: { check: string }[] }>(['doctor', '--store', store], env)).findings.find(
        ({ check }) => check === 'store',
      );
    expect(await doctor()).toMatchObject({ status: 'fail', fix: expect.stringContaining(command) });
    expect(await valise(['keys', 'seal', '--store', store])).toMatchObject({ code: 1 });
    expect(await valise(command.split(' ').slice(1), env)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^1 entry is sealed with the key [\w-]{8}\n$/),
    });
    expect(await doctor()).toMatchObject({ status: 'ok' });
    expect(await valise(['status', '--store', store], env)).toMatchObject({ code: 0 });
    expect(await valiseJson(['keys', 'seal', '--store', store], env)).toMatchObject({ sealed: 1 });
    const sealed = await openStore(store, { keys: env.VALISE_CLIENT_KEYS });
    expect((await sealed.get('a'))?.value).toBe('as it was');
    await sealed.close();
  });

  it('drops what was written without keys into a sealed store, once told to, and names it; nothing is taken over', async () => {
    const path = join(await folder(), 'state.json');
    const store = `file:${path}`;
    const env = { VALISE_CLIENT_KEYS: generateKey() };
    const sealed = await openStore(store, { keys: env.VALISE_CLIENT_KEYS });
    await sealed.put('sealed', true);
    await sealed.close();
    const plain = plainFileStore(path);
    const name = `jar/${createHash('sha256').update('').digest('base64url').slice(0, 24)}/planted`;
    await plain.put(name, { planted: true });
    await plain.close();
    for (const words of [['jar'], ['status'], ['pending']])
      expect(await valise([...words, '--store', store], env)).toMatchObject({
        code: 0,
        stderr: expect.stringContaining(`"${name}" was written without keys`),
      });
    expect(await valise(['doctor', '--store', store], env)).toMatchObject({
      code: 1,
      stdout: expect.stringContaining(`valise keys seal --drop-plain --store ${store}`),
    });
    expect(await valise(['keys', 'seal', '--store', store], env)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`valise keys seal --drop-plain --store ${store}`),
    });
    expect(await valise(['keys', 'seal', '--drop-plain', '--store', store], env)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`1 entry written without keys dropped\n  "${name}"\n`),
    });
    expect(await valiseJson(['keys', 'seal', '--drop-plain', '--store', store], env)).toMatchObject({
      dropped: [],
    });
    expect(await valise(['doctor', '--store', store], env)).toMatchObject({ code: 0 });
  });

  it('does not make the store that it is to seal', async () => {
    const path = join(await folder(), 'mistyped.db');
    const env = { VALISE_CLIENT_KEYS: generateKey() };
    expect(await valise(['keys', 'seal', '--store', `sqlite:${path}`], env)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`There is no store in ${path}.`),
    });
    await expect(stat(path)).rejects.toThrow('ENOENT');
  });

  it('says why a file could not be made', async () => {
    const { code, stderr } = await valise(['keys', 'generate', '--out', join(await folder(), 'no/such/x')]);
    expect(code).toBe(1);
    expect(stderr).toContain('Is its folder there');
    expect(stderr).not.toContain('written over');
  });

  it('refuses a key file that others can read, and tells how to close it', async () => {
    const path = join(await folder(), 'open.env');
    await writeFile(path, `VALISE_KEYS=${generateKey()}\n`);
    await chmod(path, 0o644);
    expect(await valise(['keys', 'list', '--key-file', path])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`chmod 600 ${path}`),
    });
  });

  it('says what to do without keys', async () => {
    expect(await valise(['keys', 'list'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('valise keys generate'),
    });
  });
});

describe('valise token', () => {
  const key = generateKey();
  const token = createSealer({ keys: key, audience: 'work-items', ttl: 600 }).seal(
    { secret: 'in here' },
    { purpose: 'round', subject: 'alice', bind: ['tools/call'] },
  );

  it('shows the outside of a token without any key', async () => {
    expect(await valiseJson(['token', token])).toMatchObject({
      version: 1,
      opens: false,
      bytes: token.length,
    });
  });

  it('tells what a token is bound to, and never its payload, with the key', async () => {
    const { stdout } = await valise(['token', token], { VALISE_KEYS: key });
    expect(stdout).toMatch(/purpose +round/);
    expect(stdout).toMatch(/audience +work-items/);
    expect(stdout).toMatch(/bound to +a principal and a request or session/);
    expect(stdout).not.toContain('in here');
    expect(await valiseJson(['token', token], { VALISE_KEYS: generateKey() })).toMatchObject({
      opens: false,
    });
  });

  it('reveals the payload only with the key, the flag, the subject and the binding', async () => {
    const all = ['token', token, '--reveal', '--subject', 'alice', '--bind', '["tools/call"]'];
    expect((await valise(all, { VALISE_KEYS: key })).stdout).toContain('{"secret":"in here"}');
    expect((await valise(['token', token, '--reveal'], { VALISE_KEYS: key })).code).toBe(1);
    expect((await valise(all)).code).toBe(1);
    expect((await valise(['token', 'nonsense'])).code).toBe(1);
    expect((await valise(all, { VALISE_KEYS: key })).stdout).not.toContain('not shown');
  });

  it('asks for the key that it was sealed with, not for a new one', async () => {
    const [kid = ''] = parseKeys(key).kids;
    for (const env of [{}, { VALISE_KEYS: generateKey() }]) {
      const { code, stderr } = await valise(['token', token, '--reveal'], env as Record<string, string>);
      expect(code).toBe(1);
      expect(stderr).toContain(`the key ${kid}`);
      expect(stderr).toMatch(/VALISE_KEYS.*--key-file/);
      expect(stderr).not.toMatch(/keys generate|--subject/);
    }
  });

  it('says what is wrong with what it was given', async () => {
    const env = { VALISE_KEYS: key };
    const bad = await valise(['token', 'nonsense'], env);
    expect(bad.stderr).toContain('not a sealed token of Valise');
    expect(bad.stderr).not.toContain('Start over');
    const unbound = await valise(['token', token, '--reveal'], env);
    expect(unbound.stderr).toContain('--subject and --bind');
    expect(await valise(['token', token, '--reveal', '--bind', '{'], env)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--bind is not JSON'),
    });
  });
});
