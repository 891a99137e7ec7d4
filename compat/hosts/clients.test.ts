import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { answerOnPage } from './answer.ts';
import {
  CLIENTS,
  type Column,
  type Found,
  type Reason,
  readFound,
  SETTINGS,
  type Setting,
  withClients,
  writeFound,
} from './clients.ts';
import { openModel } from './model.ts';
import { clientsPage, examples, readme, stockRunner, work } from './places.ts';
import type { Job } from './run-stock.ts';
import { openServer } from './server.ts';

/** The hosts need Node 22, which also runs TypeScript. */
const NODE = process.env['COMPAT_NODE22'] ?? process.execPath;
const own = `${work.slice(0, -1)}-clients/`;

const found: Found = {};
let servers: Record<'store' | 'no store', Awaited<ReturnType<typeof openServer>>>;
let model: Awaited<ReturnType<typeof openModel>>;
beforeAll(async () => {
  rmSync(own, { recursive: true, force: true });
  mkdirSync(own);
  for (const { instead = ['', ''], example } of CLIENTS) {
    const folder = folderOf(instead);
    cpSync(examples, folder, { recursive: true });
    if (instead[0] === '') continue;
    const file = `${folder}/${example}.ts`;
    writeFileSync(file, readFileSync(file, 'utf8').replaceAll(`'${instead[0]}'`, `'${instead[1]}'`));
  }
  const [store, none] = await Promise.all([openServer(), openServer({ withStore: false })]);
  servers = { store, 'no store': none };
  model = await openModel();
});
afterAll(async () => {
  await Promise.all(Object.values(servers).map((server) => server.close()));
  model.close();
});

const folderOf = ([, instead]: readonly [string, string]) => `${own}examples${instead.replaceAll('/', '+')}`;

interface Said {
  readonly name: string;
  readonly said: readonly string[];
  readonly asked: number;
}

/** Starts a host in a process of its own. Returns what it said at each server. */
async function run(
  { example, instead = ['', ''] }: (typeof CLIENTS)[number],
  jobs: readonly Job[],
): Promise<Map<string, Said>> {
  const child = spawn(
    NODE,
    ['--no-warnings', stockRunner, `${folderOf(instead)}/${example}.ts`, JSON.stringify(jobs)],
    {
      env: { ...process.env, HOME: own, ...model.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  let [output, errors] = ['', ''];
  child.stdout.on('data', (data) => (output += data));
  child.stderr.on('data', (data) => (errors = `${errors}${data}`.slice(-2000)));
  const patience = setTimeout(() => child.kill('SIGKILL'), 110_000);
  await new Promise((resolve) => child.once('close', resolve));
  clearTimeout(patience);
  const lines = output.split('\n').filter((line) => line.startsWith('{"name"'));
  if (lines.length < jobs.length) throw new Error(`${example} did not finish: ${errors}`);
  return new Map(lines.map((line) => JSON.parse(line) as Said).map((one) => [one.name, one]));
}

const numbers = (text: string, name: string) =>
  [...text.matchAll(new RegExp(`${name}=(\\d)`, 'g'))]
    .map(([, n]) => n)
    .filter((n, at, all) => n !== all[at - 1]);
const handleIn = (text: string) => text.match(/vh1_[\w-]{22}/g)?.at(-1);

describe.each(CLIENTS)('$name, without Valise', (client) => {
  it('keeps state, asks and has a session, or says why not, at each kind of server', async () => {
    const users: Record<Setting, string> = Object.fromEntries(
      SETTINGS.map((setting) => {
        const [kind = 'store', who] = setting.split(', ') as ['store' | 'no store', string];
        const token = who === 'signed in' ? `?token=${encodeURIComponent(client.name)}` : '';
        return [setting, `${servers[kind].url}${token}`];
      }),
    ) as never;
    const jobs = SETTINGS.map((name) => ({
      name,
      url: users[name],
      // A question that the host itself puts to its user is lost with the host.
      prompts: [
        'Call count,count',
        'Call note,note',
        'Call greet',
        ...(client.asks.stock ? [] : ['Call later']),
      ],
    }));
    const first = await run(client, jobs);
    const again: Job[] = [];
    for (const setting of SETTINGS) {
      const said = first.get(setting)?.said ?? [];
      await answerOnPage(said[3] ?? '');
      // The chat is kept: its latest results are what the model sees.
      const kept = (at: number) =>
        handleIn(said[at] ?? '') ? `. Earlier result: state_handle: ${handleIn(said[at] ?? '')}` : '';
      again.push({
        name: setting,
        url: users[setting],
        prompts: [
          `Call count${kept(0)}`,
          `Call note${kept(1)}`,
          ...(client.asks.stock ? [] : [`Call later${kept(3)}`]),
        ],
      });
    }
    const next = await run(client, again);
    for (const setting of SETTINGS) {
      const [one, two] = [first.get(setting) as Said, next.get(setting) as Said];
      const note = (column: Column, result: Reason | 'works') => {
        const row = (found[client.name] ??= {});
        (row[setting] ??= {})[column] = result;
      };
      const isStored = setting.startsWith('store');
      const better = (text: string | undefined): Reason | 'works' =>
        !isStored ? 'memory' : handleIn(text ?? '') ? 'conversation' : 'works';
      for (const [at, column, name] of [
        [0, 'jar', 'count'],
        [1, 'session', 'notes'],
      ] as const) {
        const values = [...numbers(one.said[at] ?? '', name), ...numbers(two.said[at] ?? '', name)].join();
        if (isStored) expect(values, `${setting}: ${one.said[at]} ${two.said[at]}`).toMatch(/^1,2,(3|1)$/);
        note(
          column,
          values === '1,2,3' ? better(one.said[at]) : values === '1,2,1' ? 'connection' : 'no-store',
        );
      }
      if (client.asks.stock) {
        expect(one.said[2], setting).toContain('hello=Ada');
        expect(one.asked).toBe(1);
        note('ask', 'works');
        note('ask across a kill', 'ask-lost');
        continue;
      }
      const isAsked = one.said[2]?.includes('valise-question=') === true;
      if (isStored) expect(one.said[2], setting).toContain('hello=Ada');
      note('ask', isAsked ? (isStored ? 'works' : 'memory') : 'no-store');
      const isDone = two.said[2]?.includes('hello=Ada') === true;
      note('ask across a kill', isDone ? better(one.said[3]) : isAsked ? 'connection' : 'no-store');
    }
  });
});

it('has found what the tables of docs/clients.md and README.md say', () => {
  if (process.env['COMPAT_WRITE']) writeFound(found);
  expect(found).toEqual(readFound());
  for (const page of [clientsPage, readme]) {
    const text = readFileSync(page, 'utf8');
    expect(text, `${page} is stale: run node scripts/compat.mjs hosts --write`).toBe(
      withClients(text, found),
    );
  }
});
