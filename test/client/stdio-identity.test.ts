import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, InMemoryTransport, type JSONRPCMessage } from '@modelcontextprotocol/client';
import { openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { afterAll, beforeAll, expect, it } from 'vitest';

interface Command {
  readonly command: string;
  readonly args?: readonly string[];
  readonly cwd?: string;
}

const SERVER = 'modelcontextprotocol.io/state/server';

let folder: string;
beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'valise-stdio-')));
  for (const project of ['one', 'two']) {
    mkdirSync(join(folder, project, 'node_modules', '.bin'), { recursive: true });
    writeFileSync(join(folder, project, 'node_modules', '.bin', 'notes'), '#!/bin/sh\n', { mode: 0o755 });
    mkdirSync(join(folder, project, 'bin'));
    writeFileSync(join(folder, project, 'bin', 'python3'), '#!/bin/sh\n', { mode: 0o755 });
  }
  mkdirSync(join(folder, 'registry', 'below'), { recursive: true });
  writeFileSync(join(folder, 'registry', '.npmrc'), 'registry=https://npm.example.com/\n');
  mkdirSync(join(folder, 'odd'));
  writeFileSync(join(folder, 'bridge.py'), '# leads somewhere');
  writeFileSync(join(folder, 'bridge.py a.example.com'), '# another one');
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Starts one program after the other, each of which sets state; what the second one was sent. */
async function seenBySecond(first: Command, second: Command): Promise<unknown> {
  const valise = await openValise({ store: memoryStore() });
  let seen: unknown;
  for (const server of [first, second]) {
    const [ours, theirs] = InMemoryTransport.createLinkedPair();
    theirs.onmessage = (message: JSONRPCMessage) => {
      if (!('id' in message) || !('method' in message)) return;
      const { id, method, params } = message;
      if (method === 'tools/call')
        seen = (params?.['_meta'] as Record<string, unknown> | undefined)?.[SERVER];
      const result =
        method === 'initialize'
          ? {
              protocolVersion: '2025-11-25',
              capabilities: { tools: {} },
              serverInfo: { name: 'x', version: '1' },
            }
          : { content: [], _meta: { [SERVER]: { who: 'first' } } };
      void theirs.send({ jsonrpc: '2.0', id, result } as JSONRPCMessage);
    };
    await theirs.start();
    const client = new Client({ name: 'stdio', version: '1' }, { versionNegotiation: { mode: 'legacy' } });
    await valise.connect(client, ours as never, { server: server as never });
    await client.callTool({ name: 'x' });
    await client.close();
  }
  await valise.close();
  return seen;
}

it.each<[string, (at: string) => readonly [Command, Command]]>([
  [
    'a file whose name looks like a script and the address it leads to',
    (at) => [
      { command: 'python3', args: [join(at, 'bridge.py'), 'https://a.example.com/mcp'] },
      { command: 'python3', args: [join(at, 'bridge.py a.example.com')] },
    ],
  ],
  [
    'a program of the same name in the node_modules of another project',
    (at) => [
      { command: 'npx', args: ['notes'], cwd: join(at, 'one') },
      { command: 'npx', args: ['notes'], cwd: join(at, 'two') },
    ],
  ],
  [
    'a package of another registry, which the project names',
    (at) => [
      { command: 'npx', args: ['-y', '@corp/notes'], cwd: at },
      { command: 'npx', args: ['-y', '@corp/notes'], cwd: join(at, 'registry', 'below') },
    ],
  ],
  [
    'a module of the interpreter of another environment',
    (at) => [
      { command: join(at, 'one', 'bin', 'python3'), args: ['-m', 'notes'], cwd: at },
      { command: join(at, 'two', 'bin', 'python3'), args: ['-m', 'notes'], cwd: at },
    ],
  ],
  [
    'a program whose argument looks like the folder of the other',
    (at) => [
      { command: 'npx', args: ['bridge.py'], cwd: at },
      { command: 'npx', args: ['bridge.py', at], cwd: join(at, 'odd') },
    ],
  ],
  [
    'code given on the command line',
    () => [
      { command: 'node', args: ['-e', '1'] },
      { command: 'node', args: ['-e', '2'] },
    ],
  ],
  [
    'another image',
    () => [
      { command: 'docker', args: ['run', 'a'] },
      { command: 'docker', args: ['run', 'b'] },
    ],
  ],
  ['another spelling of a name that no folder has', () => [{ command: 'Notes' }, { command: 'notes' }]],
])('[J-13] [J-26] The state of one program is not sent to another: %s', async (_, commands) => {
  const [first, second] = commands(folder);
  expect(await seenBySecond(first, second)).toBeUndefined();
});

it('[J-26] A package cannot take the name of the previous one at the same path', async () => {
  const script = join(folder, 'odd', 'index.js');
  const manifest = join(folder, 'odd', 'package.json');
  writeFileSync(script, '// one, then another');
  writeFileSync(manifest, '{"name":"notes","version":"1.0.0"}');
  const first: Command = { command: 'node', args: [script, 'https://a.example.com'] };
  const second: Command = {
    // Read when it is connected to.
    get command() {
      writeFileSync(manifest, '{"name":"notes@1.0.0 a.example.com"}');
      return 'node';
    },
    args: [script],
  };
  expect(await seenBySecond(first, second)).toBeUndefined();
});

it('[J-17] A package of a registry is the same server in every folder that says nothing about it', async () => {
  const run = (cwd: string): Command => ({ command: 'npx', args: ['-y', '@corp/notes'], cwd });
  expect(await seenBySecond(run(folder), run(join(folder, 'odd')))).toEqual({ who: 'first' });
});
