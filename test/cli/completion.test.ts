import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { folder, serveExample, VALISE, valise, valiseJson } from './valise.ts';

const run = promisify(execFile);
const notebook = `stdio:${process.execPath} ${VALISE} example notebook --stdio`;
const bug = JSON.stringify({ workItemId: 7, fields: { 'System.State': 'Resolved' } });

/** Runs bash with the completions; `complete WORD…` prints what it offers for the last word. */
async function bash(lines: string, env: Readonly<Record<string, string>> = {}): Promise<string> {
  const cwd = await folder();
  const path = join(cwd, 'valise.bash');
  await writeFile(path, (await valise(['completion', 'bash'])).stdout);
  const complete = `source "$0"
    complete_words() { COMP_WORDS=(valise "$@"); COMP_CWORD=$#; _valise; printf '%s\\n' "\${COMPREPLY[@]}"; }`;
  const all = { ...process.env, ...env };
  return (await run('bash', ['-c', `${complete}\n${lines}`, path], { cwd, env: all })).stdout;
}

describe('completions from the store', { timeout: 60_000 }, () => {
  it('know servers, their tools, pending ids and sessions, and connect to nobody', async () => {
    const env = { VALISE_STORE: `sqlite:${join(await folder(), 'state.db')}` };
    const server = await serveExample(['work-items', '--stateless']);
    const { url } = server;
    await valise(['list', url], env);
    const { pending } = await valiseJson<{ pending: string }>(['call', url, 'update_work_item', bug], env);
    await valise(['call', notebook, 'notebook_append', '{"text":"a"}', '--session', 'diary'], env);
    const gone = once(server.child, 'close');
    server.child.kill('SIGTERM');
    await gone;
    const known = async (...words: string[]) =>
      (await valise(['__complete', '--', ...words], env)).stdout.split('\n').slice(0, -1);
    expect(await known('call', 'http')).toEqual([url]);
    expect(await known('list', 'stdio:')).toEqual([notebook]);
    expect(await known('call', url, '')).toEqual(['update_work_item']);
    expect(await known('call', '--era', 'legacy', url, 'upd')).toEqual(['update_work_item']);
    expect(await known('call', url, 'update_work_item', '')).toEqual([]);
    expect(await known('pending', 'answer', '')).toEqual([pending]);
    expect(await known('pending', 'drop', pending.slice(0, 3))).toEqual([pending]);
    expect(await known('sessions', 'show', 'd')).toEqual(['diary']);
    expect(await known('call', url, '--store', '')).toEqual([]);
    expect(await known('pending', 'answer', '--store', 'sqlite:/nowhere/at/all.db', '')).toEqual([]);
    const real = `valise() { "${process.execPath}" "${VALISE}" "$@"; }
      complete_words pending answer ${pending.slice(0, 2)}; complete_words call ${url} u`;
    expect(await bash(real, env)).toBe(`${pending}\nupdate_work_item\n`);
  });

  it('are quoted by bash, which expands nothing in them', async () => {
    const said = await bash(`valise() { printf '%s\\n' '$(touch owned)' 'two words' '\`id\`'; }
      complete_words call http://127.0.0.1:1/mcp ''; ls`);
    expect(said).toContain('\\$\\(touch\\ owned\\)\ntwo\\ words\n\\`id\\`\n');
    expect(said).not.toMatch(/^owned$/m);
  });

  it('are asked for by the scripts of zsh and fish', async () => {
    expect((await valise(['completion', 'zsh'])).stdout).toContain('__complete -- ');
    const { stdout: fish } = await valise(['completion', 'fish']);
    const ask = "-a '(valise __complete -- (commandline -opc)[2..-1] (commandline -ct))'";
    expect(fish).toContain(`complete -c valise -f -n '__fish_seen_subcommand_from call' ${ask}\n`);
  });
});
