import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { connect, KINDS, openHosts } from './hosts.ts';
import { openSessionHost } from './sessions-host.ts';

const store = memoryStore();
const refused = (code: string, ...words: string[]) =>
  expect.objectContaining({
    name: 'ValiseError',
    code,
    message: expect.stringMatching(new RegExp(words.join('.*'))),
  });

describe('openValise', () => {
  it.each([
    ['store', 5, 'URL of a store'],
    ['store', {}, 'URL of a store'],
    ['store', null, 'URL of a store'],
    ['principal', 5, 'text'],
    ['principal', null, 'text'],
    ['principal', '', 'text of at least one character'],
    ['quotas', null, 'object'],
    ['allowLocal', 'no', 'true or false'],
    ['digest', 1, 'true or false'],
    ['insecurePlaintext', 'yes', 'true or false'],
    ['secrets', 'vault', 'keychain'],
    ['secrets', {}, 'keychain'],
    ['carriers', 'state', 'list of state'],
    ['carriers', ['pigeon'], 'list of state'],
  ])('openValise() says what the option %s accepts when it gets %j', async (name, value, words) => {
    await expect(openValise({ store, [name]: value } as never)).rejects.toEqual(
      refused('invalid-argument', `option ${name} of openValise`, words),
    );
  });

  it('openValise() lists its options if one is misspelled', async () => {
    await expect(openValise({ stor: 'memory:' } as never)).rejects.toEqual(
      refused('invalid-argument', 'openValise has no option stor', 'store, keys'),
    );
  });

  it.each(['memory:', null, 7, []])('openValise() rejects %j as options', async (given) => {
    await expect(openValise(given as never)).rejects.toEqual(
      refused('invalid-argument', 'openValise', 'object'),
    );
  });

  it.each([5, {}, []])('openValise() names the option keys if %j is not a keyring', async (keys) => {
    await expect(openValise({ store, keys } as never)).rejects.toEqual(refused('invalid-key', 'as keys'));
  });
});

describe('arguments of Valise methods', () => {
  it('Valise methods name an invalid argument', async () => {
    const valise = await openValise({ store });
    const client = { connect: async () => {}, getServerCapabilities: () => undefined };
    const transport = { start: async () => {}, send: async () => {}, close: async () => {} };
    await expect(valise.connect(undefined as never, transport)).rejects.toEqual(refused('invalid-argument'));
    await expect(valise.connect(client, {} as never)).rejects.toEqual(refused('invalid-argument', 'a URL'));
    for (const fixed of [Object.freeze({ ...transport }), Object.seal({ ...transport })])
      await expect(valise.connect(client, fixed)).rejects.toEqual(
        refused('invalid-argument', 'is frozen', 'Do not freeze'),
      );
    const session = { jarLifetime: 'keep' } as never;
    await expect(valise.connect(client, transport, session)).rejects.toEqual(
      refused('invalid-argument', 'kept'),
    );
    for (const url of ['nonsense', undefined, 'ftp://a.example.com', 'https://me:secret@'] as never[]) {
      if (url !== undefined)
        await expect(valise.connect(client, url)).rejects.toEqual(refused('invalid-argument'));
      expect(() => valise.transport(url)).not.toThrow(/secret/);
      await expect(valise.connections.forget(url)).rejects.toEqual(refused('invalid-argument'));
    }
    await expect(valise.connections.list('nonsense')).rejects.toEqual(refused('invalid-argument'));
    expect(() => valise.transport('ftp://a.example.com')).toThrow(
      refused('invalid-argument', 'not an http: or https: URL'),
    );
    expect(() => valise.transport('https://a.example.com', { resume: 'no' } as never)).toThrow(
      refused('invalid-argument', 'resume'),
    );
    expect(() => valise.transport('https://a.example.com', { auth: {} } as never)).toThrow(
      refused('invalid-argument', 'auth, as redirect', 'function'),
    );
    expect(() => valise.transport('https://a.example.com', { auth: { redirct: () => {} } } as never)).toThrow(
      refused('invalid-argument', 'no option redirct', 'redirect'),
    );
    const auth = { redirect: () => {}, client: { id: 'mine' } };
    expect(() => valise.transport('https://a.example.com', { auth } as never)).toThrow(
      refused('invalid-argument', 'option client of auth', 'issuer'),
    );
    await expect(openValise({ store, quotas: { bytesPrKey: 9000 } } as never)).rejects.toEqual(
      refused('invalid-argument', 'no option bytesPrKey', 'bytesPerKey'),
    );
    expect(() => valise.transport('https://a.example.com', { header: {} } as never)).toThrow(
      refused('invalid-argument', 'transport has no option header', 'headers'),
    );
    await expect(valise.connect(client, transport, { sesions: false } as never)).rejects.toEqual(
      refused('invalid-argument', 'connect has no option sesions', 'sessions'),
    );
    expect(() => valise.transport({} as never)).toThrow(refused('invalid-argument'));
    expect(() => valise.transport({ command: 'node', args: 'x' } as never)).toThrow(
      refused('invalid-argument', 'option args of a command', 'list'),
    );
    expect(() => valise.transport({ command: 'node', arg: ['x'] } as never)).toThrow(
      refused('invalid-argument', 'a command has no option arg', 'args'),
    );
    for (const source of [valise, valise.jar]) {
      const on = source.on.bind(source) as (name: unknown, listener?: unknown) => void;
      expect(() => on('nope', () => {})).toThrow(
        refused('invalid-argument', 'no event "nope"', 'set, deleted'),
      );
      expect(() => on('toString', () => {})).toThrow(refused('invalid-argument', 'no event'));
      expect(() => on('set')).toThrow(refused('invalid-argument', '"set" is no function'));
    }
    await valise.close();
  });
});

describe('a Valise that cannot be opened', () => {
  it('openValise() creates no store if the quotas are invalid', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'valise-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const opened = openValise({ store: `sqlite:${folder}/state.db`, quotas: { keys: 1 } });
    await expect(opened).rejects.toEqual(refused('invalid-argument', 'keys'));
    expect(await readdir(folder)).toEqual([]);
  });
});

describe('arguments of pending methods', () => {
  it('Pending methods name an invalid argument', async () => {
    const { pending, close } = await openValise({ store: memoryStore() });
    for (const options of [{ clint: {} }, { client: 'mine' }, null] as never[])
      await expect(pending.answer('any', {}, options)).rejects.toEqual(
        refused('invalid-argument', 'pending.answer'),
      );
    for (const answers of ['Ada', 5, []] as never[])
      await expect(pending.answer('any', answers)).rejects.toEqual(
        refused('invalid-argument', 'pending.answer'),
      );
    await close();
  });
});

describe('arguments of session methods', () => {
  it('Session methods name an invalid argument before they send anything', async () => {
    const host = await openSessionHost();
    const valise = await openValise({ store: memoryStore() });
    const client = await host.connect(valise, 'https://notes.example.com/mcp');
    const sessions = valise.sessions(client);
    const session = await sessions.create();
    host.seen.length = 0;
    const label = '1 to 256 characters';
    for (const name of ['', 5, undefined, 'x'.repeat(257)] as never[])
      await expect(sessions.named(name)).rejects.toEqual(
        refused('invalid-argument', 'sessions.named', label),
      );
    for (const [options, ...words] of [
      [{ labl: 'x' }, 'has no option labl', 'label'],
      [{ label: '' }, 'option label', label],
      [{ keep: 'yes' }, 'option keep', 'true or false'],
      [{ ordering: 'random' }, 'option ordering', 'serial'],
      [5, 'not an object'],
    ] as unknown as [never, ...string[]][]) {
      await expect(sessions.create(options)).rejects.toEqual(refused('invalid-argument', ...words));
      await expect(session.fork(options)).rejects.toEqual(refused('invalid-argument', ...words));
    }
    const behaviour = { onGone: 'ignore' } as never;
    const wrong = refused('invalid-argument', 'onGone', 'recreate');
    await expect(sessions.named('x', behaviour)).rejects.toEqual(wrong);
    await expect(sessions.resume('x', behaviour)).rejects.toEqual(wrong);
    expect(() => session.run('x' as never)).toThrow(refused('invalid-argument', 'session.run', 'a function'));
    for (const { listen } of [sessions, { listen: session.listen.bind(session) }]) {
      for (const listener of [{}, undefined] as never[])
        await expect(listen(listener)).rejects.toEqual(refused('invalid-argument', 'listen', 'a function'));
      await expect(listen(() => {}, { pol: true } as never)).rejects.toEqual(
        refused('invalid-argument', 'pol'),
      );
    }
    expect(host.seen).toEqual([]);
    await client.close();
    await valise.close();
    await host.close();
  });
});

describe.each(KINDS)('a closed Valise, on $kind', (kind) => {
  const ends: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const end of ends.splice(0)) await end();
  });

  it.each(['memory:', memoryStore()])('A closed Valise rejects every method call', async (given) => {
    const hosts = await openHosts();
    ends.push(() => hosts.close());
    const valise = await openValise({ store: given });
    const { jar, pending, connections, sessions } = valise;
    const client = await connect(valise, hosts, 'https://shop.example.com', kind);
    await client.close();
    await valise.close();
    await valise.close();
    const closed = refused('closed', 'openValise');
    hosts.seen.length = 0;
    await expect(connect(valise, hosts, 'https://shop.example.com', kind)).rejects.toEqual(closed);
    expect(hosts.seen).toEqual([]);
    expect(() => jar.list()).toThrow(closed);
    expect(() => jar.show('shop.example.com')).toThrow(closed);
    expect(() => jar.export()).toThrow(closed);
    await expect(jar.clear()).rejects.toEqual(closed);
    await expect(jar.refresh()).rejects.toEqual(closed);
    expect(() => sessions(client)).toThrow(closed);
    await expect(sessions.kept()).rejects.toEqual(closed);
    await expect(sessions.forget('x')).rejects.toEqual(closed);
    await expect(pending.list()).rejects.toEqual(closed);
    await expect(pending.answer('x')).rejects.toEqual(closed);
    await expect(pending.drop('x')).rejects.toEqual(closed);
    await expect(connections.list()).rejects.toEqual(closed);
    await expect(connections.forget('https://shop.example.com')).rejects.toEqual(closed);
  });
});
