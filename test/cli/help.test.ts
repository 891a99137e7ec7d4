import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Command } from 'commander';
import { beforeAll, describe, expect, it } from 'vitest';
import { makeProgram } from '../../cli/src/main.ts';
import { example as notebook } from '../../examples/notebook.ts';
import { example as vault } from '../../examples/vault.ts';
import { folder, valise } from './valise.ts';

const run = promisify(execFile);

function commandsOf(command: Command, path: string): [string, Command][] {
  return [[path, command], ...command.commands.flatMap((sub) => commandsOf(sub, `${path} ${sub.name()}`))];
}

function helpOf(command: Command): string {
  let help = '';
  command.configureOutput({ writeOut: (text) => (help += text) }).outputHelp();
  return help;
}

const all = commandsOf(
  makeProgram(() => {}),
  'valise',
);

describe('help', () => {
  it.each(all)('%s --help has examples', (path, command) => {
    const examples = /\nExamples?:\n([\s\S]+)/.exec(helpOf(command))?.[1];
    expect(examples).toContain(path);
  });

  it.each([notebook, vault])(
    'lists every option that an example has of its own: $name',
    ({ name, options }) => {
      const help = helpOf(all.find(([path]) => path === `valise example ${name}`)?.[1] as Command);
      for (const option of [
        'stdio',
        'http',
        'sdk',
        'store',
        'stateless',
        'key-file',
        ...Object.keys(options ?? {}),
      ])
        expect(help).toContain(`--${option} `);
    },
  );
});

describe('a command line that is not understood', () => {
  it.each([
    { words: [], path: 'valise' },
    { words: ['call'], path: 'valise call' },
    { words: ['jar'], path: 'valise jar list' },
    { words: ['jar', 'show'], path: 'valise jar show' },
    { words: ['keys', 'seal'], path: 'valise keys seal' },
    { words: ['example', 'shop'], path: 'valise example shop' },
  ])('is answered by what is wrong with it, and where help is: $path', async ({ words, path }) => {
    const ran = await valise([...words, '--nonsense']);
    expect(ran).toEqual({
      code: 2,
      stdout: '',
      stderr: `valise: unknown option '--nonsense'\nFor its options and examples: ${path} --help\n`,
    });
  });
});

describe('help and errors', () => {
  it('shows no default that is an empty list or object', async () => {
    for (const command of ['call', 'list', 'connect', 'doctor'])
      expect((await valise([command, '--help'])).stdout).not.toMatch(/default: (\[\]|\{\})/);
  });

  it('prints the version for `valise version`', async () => {
    const { stdout } = await valise(['--version']);
    expect(await valise(['version'])).toEqual({ code: 0, stdout, stderr: '' });
  });

  it('tells a command line that is not understood once with --json', async () => {
    const { code, stdout, stderr } = await valise(['list', '--nonsense', '--json']);
    expect({ code, stderr }).toEqual({ code: 2, stderr: '' });
    expect(JSON.parse(stdout)).toMatchObject({ error: { message: "unknown option '--nonsense'" } });
  });
});

describe('a command that is misspelt', () => {
  it.each([
    { words: ['pending', 'anwser', 'Xb3'], has: 'valise pending has: list, answer, drop.' },
    { words: ['sessions', 'shw', 'diary'], has: 'valise sessions has: list, show, delete.' },
  ])('is answered by those that there are: $words', async ({ words, has }) => {
    expect(await valise(words)).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(has) });
  });
});

describe('completions', () => {
  let script: string;
  beforeAll(async () => {
    script = (await valise(['completion', 'bash'])).stdout;
  });

  /** What bash offers after these words; the last one is the one being typed. */
  async function complete(...words: string[]): Promise<string[]> {
    const path = join(await folder(), 'valise.bash');
    await writeFile(path, script);
    const ask = `source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _valise; echo "\${COMPREPLY[@]}"`;
    const { stdout } = await run('bash', ['-c', ask, path, 'valise', ...words]);
    return stdout.trim().split(/\s+/);
  }

  it('know commands, their parts and their options', async () => {
    expect(await complete('do')).toEqual(['doctor']);
    expect(await complete('keys', '')).toEqual(expect.arrayContaining(['generate', 'list', 'rotate']));
    expect(await complete('keys', 'rotate', '--o')).toEqual(['--out']);
    expect(await complete('example', 'sh')).toEqual(['shop']);
    expect(await complete('call', 'https://x.example.com', 'tool', '--ans')).toEqual(['--answer']);
  });

  it('know the values of options', async () => {
    expect(await complete('keys', 'rotate', '--phase', '')).toEqual(['add', 'promote', 'drop']);
    expect(await complete('tour', '--story', 'b')).toEqual(['bug']);
    expect(await complete('call', '--era', '')).toEqual(['auto', 'legacy', 'modern']);
    // Anything may stand here: the shell offers files.
    expect(await complete('keys', 'rotate', '--out', '')).toEqual(['']);
  });

  it('know the options of each example, alone and in a cluster', async () => {
    expect(await complete('example', 'vault', '--')).toEqual(
      expect.arrayContaining(['--stdio', '--http', '--sdk', '--store', '--with-auth', '--help']),
    );
    expect(await complete('example', 'shop', '--http', '0', '--w')).toEqual(['']);
    expect(await complete('example', 'notebook', '--mode', '')).toEqual(['sealed', 'stored']);
    expect(await complete('cluster', 'notebook', '--mo')).toEqual(['--mode']);
    const { stdout: fish } = await valise(['completion', 'fish']);
    const seen = '__fish_seen_subcommand_from example; and __fish_seen_subcommand_from vault';
    expect(fish).toMatch(new RegExp(`^complete -c valise -f -n '${seen}' -a '.*--with-auth.*'$`, 'm'));
    expect(fish).toContain(`complete -c valise -f -n '${seen}' -l sdk -x -a 'v1 v2'\n`);
  });

  it('do not know what is hidden', async () => {
    expect(await complete('__')).toEqual(['']);
    expect((await valise(['--help'])).stdout).not.toContain('__complete');
    expect(await complete('tour', '--')).toEqual(expect.arrayContaining(['--story', '--slow']));
    expect(await complete('tour', '--as')).toEqual(['']);
  });
});
