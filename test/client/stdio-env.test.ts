import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { openValise } from 'mcp-valise/client';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { identify } from '../../src/client/identity/identity.ts';
import { targetKey, targetNamed } from '../../src/client/identity/target.ts';
import type { TransportLike } from '../../src/core/instrument.ts';
import { StdioClientTransport as StdioOwn } from '../../src/edge/stdio-client.ts';

const SCRIPT = fileURLToPath(new URL('./stdio-server.mjs', import.meta.url));
const info = { name: 'test', version: '1.0.0' };

let folder: string;
beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'valise-env-')));
  for (const name of ['a', 'b']) {
    mkdirSync(join(folder, name));
    copyFileSync(SCRIPT, join(folder, name, 'server.mjs'));
    const runs = `#!/bin/sh\nexec '${process.execPath}' '${join(folder, name, 'server.mjs')}'\n`;
    writeFileSync(join(folder, name, 'mytool'), runs, { mode: 0o755 });
  }
  writeFileSync(join(folder, 'server.py'), '# told');
});
afterAll(() => rmSync(folder, { recursive: true }));

const pathOf = (...names: string[]) =>
  [...names.map((name) => join(folder, name)), process.env['PATH']].join(delimiter);

type Env = Readonly<Record<string, string>>;

function target(command: string, args: readonly string[], env?: Env) {
  return targetNamed({ command, args, cwd: folder, ...(env && { env }) });
}

const name = (command: string, args: readonly string[] = [], env?: Env) =>
  identify(target(command, args, env)).name;

describe.each([
  { kind: 'v1', Client: ClientV1, Stdio: StdioV1 },
  { kind: 'v2', Client: ClientV2, Stdio: StdioV2 },
  { kind: 'v2 on our own transport', Client: ClientV2, Stdio: StdioOwn },
])('a program that the given PATH finds, $kind', ({ Client, Stdio }) => {
  it.each([['mytool'], ['env', 'mytool'], ['sh', '-c', 'mytool']])(
    '[J-13] A program gets no state of another that is started as %s %s %s',
    async (command, ...args) => {
      const valise = await openValise({ store: 'memory:' });
      onTestFinished(() => valise.close());
      const count = async (at: string): Promise<unknown> => {
        const client = new Client(info) as ClientV2;
        const env = { PATH: pathOf(at), TOKEN: String(Math.random()) };
        await valise.connect(client, new Stdio({ command, args, env, cwd: folder }) as TransportLike);
        const { content } = await client.callTool({ name: 'count', arguments: {} });
        await client.close();
        return JSON.parse((content as { text: string }[])[0]!.text)[1];
      };
      expect(await count('a')).toBe(null);
      expect(await count('b')).toBe(null);
      expect(await count('a')).toEqual({ count: 1 });
    },
  );
});

describe('the environment variables of a stdio server', () => {
  it('[J-17] The given PATH finds the file of a stdio server', () => {
    expect(name('mytool', [], { PATH: pathOf('a', 'b') })).toBe(join(folder, 'a', 'mytool'));
    expect(name('mytool', [], { PATH: pathOf('b', 'a') })).toBe(join(folder, 'b', 'mytool'));
    expect(name('mytool', [], { PATH: `b${delimiter}a` })).toBe(join(folder, 'b', 'mytool'));
    expect(name('mytool', [], { PATH: dirname(process.execPath) })).toMatch(/^mytool \+/);
  });

  it.each([
    ['PYTHONPATH', 'python3', '-m', 'mod'],
    ['TOOL', 'sh', '-c', 'exec $TOOL'],
    ['TOOL', 'sh', '-c', `"\${TOOL}" --serve`],
    ['TOOL', 'node', '-e', 'import(process.env.TOOL)'],
    ['TOOL', 'npx', '-c', '$TOOL'],
    ['NODE_OPTIONS', 'node', '--some-option', 'server.mjs'],
    ['PATH', 'sh', '-c', 'mytool'],
    ['PATH', 'env', 'mytool'],
    ['PATH', 'stdbuf', '-oL', 'mytool'],
    ['UV_PROJECT', 'uv', 'run', 'server'],
    ['npm_config_registry', 'npx', '-y', '@shop/a'],
    ['DOCKER_HOST', 'docker', 'run', 'img'],
  ])('[J-13] Servers have different names if %s decides what %s %s %s runs', (variable, command, ...args) => {
    const [one, other] = ['a', 'b'].map((at) => target(command, args, { [variable]: pathOf(at) }));
    expect(identify(one!).name).not.toBe(identify(other!).name);
    expect(targetKey(one!)).not.toBe(targetKey(other!));
    // `valise pending` reads the command out of it.
    const words: unknown[] = JSON.parse(targetKey(one!).slice('stdio:'.length));
    expect(words.slice(0, -1)).toEqual([command, ...args]);
  });

  it.each([
    ['node', 'a/server.mjs'],
    ['python3', '-u', 'server.py'],
    ['./a/mytool'],
    ['python3', '-m', 'mod'],
    ['uv', 'run', 'server', '--debug'],
    ['npx', '-y', 'mcp-remote', '--header', `Authorization: \${TOKEN}`],
    ['docker', 'run', '-e', 'TOKEN', 'img'],
    ['sh', '-c', 'mytool'],
  ])(
    '[J-17] Settings and secrets in the environment do not change the server name: %s %s %s',
    (command, ...args) => {
      const without = target(command, args);
      const settings = { TOKEN: 'hunter2', LOG_LEVEL: 'info', DATA_DIR: join(folder, 'a') };
      for (const env of [{}, settings, { ...settings, TOKEN: 'hunter3' }]) {
        expect(identify(target(command, args, env)).name).toBe(identify(without).name);
        expect(targetKey(target(command, args, env))).toBe(targetKey(without));
      }
    },
  );

  it.each([
    ['node', 'a/server.mjs'],
    ['python3', '-u', 'server.py'],
    ['./a/mytool'],
    ['npx', '-y', '@shop/a'],
  ])(
    '[J-17] The server name contains no environment variables if the command is enough to tell it: %s %s',
    (command, ...args) => {
      const env = { PATH: pathOf('b'), NODE_OPTIONS: '--require ./other.js', PYTHONPATH: folder };
      expect(name(command, args, env)).toBe(name(command, args));
      expect(targetKey(target(command, args, env))).toBe(targetKey(target(command, args)));
    },
  );

  it('Variables that the server would inherit do not change its name', () => {
    const { PATH = '', HOME = '' } = process.env;
    expect(name('sh', ['-c', 'mytool'], { PATH, HOME })).toBe(name('sh', ['-c', 'mytool']));
  });

  it('The user in a registry URL does not change the server name', () => {
    const at = (who: string) => name('npx', ['x'], { npm_config_registry: `https://${who}npm.example.com/` });
    expect(at('me:hunter2@')).toBe(at(''));
  });

  it('Names and keys show no environment variables', () => {
    const one = target('sh', ['-c', 'exec $TOOL'], { TOOL: 'hunter2', TOKEN: 'hunter3' });
    expect(`${identify(one).name}${targetKey(one)}`).not.toContain('hunter');
    expect(JSON.stringify(one)).not.toContain('hunter3');
  });

  it('The given PATH resolves links to the file', () => {
    mkdirSync(join(folder, 'linked'));
    symlinkSync(join(folder, 'a', 'mytool'), join(folder, 'linked', 'mytool'));
    expect(name('mytool', [], { PATH: pathOf('linked') })).toBe(join(folder, 'a', 'mytool'));
  });
});
