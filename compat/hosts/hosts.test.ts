import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { answerOnPage } from './answer.ts';
import { HOSTS, type Host } from './hosts.ts';
import { openModel } from './model.ts';
import { examples, page, runner, servers, work } from './places.ts';
import { type Column, type Results, read, withTable, write } from './results.ts';
import { openServer } from './server.ts';

/** The hosts need Node 22, which also runs TypeScript. */
const NODE = process.env['COMPAT_NODE22'] ?? process.execPath;

const results: Results = {};
let server: Awaited<ReturnType<typeof openServer>>;
let model: Awaited<ReturnType<typeof openModel>>;
let vault: Awaited<ReturnType<typeof openVault>>;
beforeAll(async () => {
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work);
  for (const { instead = ['', ''] } of HOSTS) {
    const folder = folderOf(instead);
    cpSync(examples, folder, { recursive: true });
    if (instead[0] === '') continue;
    for (const { example } of HOSTS)
      writeFileSync(
        `${folder}/${example}.ts`,
        readFileSync(`${folder}/${example}.ts`, 'utf8').replaceAll(`'${instead[0]}'`, `'${instead[1]}'`),
      );
  }
  [server, model, vault] = await Promise.all([openServer(), openModel(), openVault()]);
});
afterAll(async () => {
  await server.close();
  model.close();
  vault.close();
});

const folderOf = ([, instead]: readonly [string, string]) => `${work}examples${instead.replaceAll('/', '+')}`;

/** The example server with an authorization server beside it. */
async function openVault() {
  cpSync(servers, `${work}servers`, { recursive: true });
  const child = spawn(NODE, ['--no-warnings', `${work}servers/vault.ts`, '--http', '0', '--with-auth'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  const url = await new Promise<string>((resolve, reject) => {
    const read = (data: Buffer) => {
      said += data;
      const [found] = /http:\/\/[\d.:]+\/mcp/.exec(said) ?? [];
      if (found) resolve(found);
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.once('exit', () => reject(new Error(`The vault did not start: ${said}`)));
  });
  return { url, close: () => child.kill() };
}

/** Starts a host in a process of its own; what it said to each prompt. A user who thinks is never done, and the host is killed. */
async function host(
  { example, instead = ['', ''] }: Host,
  store: string,
  prompts: readonly string[],
  { url = server.url, user = 'answers' } = {},
): Promise<{ readonly said: string[]; readonly asked: number; readonly pages: number }> {
  const args = [`${folderOf(instead)}/${example}.ts`, url, store, user, ...prompts];
  const child = spawn(NODE, ['--no-warnings', runner, ...args], {
    env: { ...process.env, HOME: work, ...model.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let errors = '';
  child.stderr.on('data', (data) => (errors = `${errors}${data}`.slice(-2000)));
  const over = once(child, 'exit');
  const patience = setTimeout(() => child.kill('SIGKILL'), 60_000);
  const said: string[] = [];
  let [asked, pages] = [0, 0];
  for await (const line of createInterface(child.stdout)) {
    if (!line.startsWith('{"')) continue;
    const told = JSON.parse(line) as { said?: string; asked?: true; page?: true };
    if (told.said !== undefined) said.push(told.said);
    if (told.page) pages++;
    if (told.asked) asked++;
    if (told.asked && user === 'thinks') child.kill('SIGKILL');
  }
  await over;
  clearTimeout(patience);
  if (said.length + asked + pages === 0) throw new Error(`${example} said nothing: ${errors}`);
  return { said, asked, pages };
}

const found = (all: readonly string[], what: RegExp): (string | undefined)[] =>
  all.map((one) => what.exec(one)?.[1]);

describe.each(HOSTS)('$name', (one) => {
  let store: string;
  beforeAll(() => {
    store = `file:${mkdtempSync(`${work}${one.example}-`)}/state.json`;
  });
  const note = (column: Column, result: string) => {
    (results[one.name] ??= {})[column] = result;
  };

  /** Two calls, and another one after a restart of the host. */
  async function counts(tool: string, what: RegExp): Promise<(string | undefined)[]> {
    const first = await host(one, store, [`Call ${tool}`, `Call ${tool}`]);
    const next = await host(one, store, [`Call ${tool}`]);
    return found([...first.said, ...next.said], what);
  }

  it('carries state between calls and across a restart, with Valise', async () => {
    expect(await counts('count', /count=(\d)/)).toEqual(['1', '2', '3']);
    note('jar', 'works');
  });

  it('continues in its session after a restart, with Valise', async () => {
    expect(await counts('note', /notes=(\d)/)).toEqual(['1', '2', '3']);
    note('session', 'works');
  });

  it('puts a question to the user, with Valise', async () => {
    const { said, asked } = await host(one, store, ['Call greet']);
    expect(asked).toBe(one.asks.valise ? 1 : 0);
    if (one.asks.valise) expect(said.join()).toContain('hello=Ada');
    else {
      // The user answers on the page of the server, and another process of the host goes on.
      expect(await answerOnPage(said.join())).toBe(true);
      const next = await host(one, store, ['Call greet']);
      expect(next.said.join()).toContain('hello=Ada');
      note('ask across a kill', 'by-link');
    }
    note('ask', one.asks.valise ? 'works' : 'by-link');
  });

  it.runIf(one.asks.valise)(
    'continues a question after the host was killed over it, with Valise',
    async () => {
      await host(one, store, ['Call greet'], { user: 'thinks' });
      const { said } = await host(one, store, ['Answer']);
      expect(said.join()).toContain('hello=Ada');
      note('ask across a kill', 'works');
    },
  );

  it('signs in once, and resumes the transport session after a restart, with Valise', async () => {
    const first = await host(one, store, ['Call whoami', 'Call increment'], { url: vault.url });
    expect(first.said.join()).toMatch(/tester/);
    const next = await host(one, store, ['Call increment'], { url: vault.url });
    expect([first.pages, next.pages]).toEqual([1, 0]);
    const counted = [...first.said.slice(1), ...next.said].map((text) => /\b(\d)\b/.exec(text)?.[1]);
    expect(counted).toEqual(['1', '2']);
    note('sign-in', 'works');
  });
});

it('has found what the table on docs/hosts.md says', () => {
  if (process.env['COMPAT_WRITE']) write(results);
  expect(results).toEqual(read());
  const text = readFileSync(page, 'utf8');
  expect(text, 'stale: run node scripts/compat.mjs hosts --write').toBe(withTable(text, results));
});
