import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createSealer, generateKey, parseKeys } from 'mcp-valise/seal';
import { type Json, openStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { hasTmux, onTerminal } from './tmux.ts';
import { folder, type Ran, serveExample, VALISE, valise } from './valise.ts';

const SCRIPT = fileURLToPath(new URL('odd-server.mjs', import.meta.url));
const odd = `stdio:${process.execPath} ${SCRIPT}`;

/** As the odd server has it, but for what no argument of a command can be. */
const HOSTILE =
  'a\u001b]0;owned\u0007\u009b1m\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061cb' +
  '\u200b\u200c\u200d\u2060\ufeff\u00ad\u2028\u2029c\u{e0041}\rd';

/** What no terminal is to see of somebody else. */
const UNSHOWN = /[^\P{Cc}\n\t]|[\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

function expectEscaped({ stdout, stderr }: Pick<Ran, 'stdout' | 'stderr'>, where: string): void {
  expect(`${stdout}${stderr}`, where).toMatch(/\\u202e|\\u009b/);
  for (const text of [stdout, stderr]) expect(UNSHOWN.exec(text)?.[0], where).toBeUndefined();
}

/** Changes what a store holds, as JSON. */
async function tamper(url: string, change: (json: string) => string): Promise<void> {
  const store = await openStore(url);
  for (const key of (await store.list('')).keys) {
    const entry = await store.get(key);
    if (entry) await store.put(key, JSON.parse(change(JSON.stringify(entry.value))) as Json);
  }
  await store.close();
}

/** Has a call wait for an answer, in a store. */
async function leaveWaiting(store: string): Promise<void> {
  const { url } = await serveExample(['work-items', '--stateless'], { VALISE_KEYS: generateKey() });
  const bug = JSON.stringify({ workItemId: 4522, fields: { 'System.State': 'Resolved' } });
  const { code } = await valise(['call', url, 'update_work_item', bug, '--store', store]);
  expect(code).toBe(3);
}

describe('the command', { timeout: 120_000 }, () => {
  it('escapes what servers say: results, lists, errors and questions', async () => {
    const store = ['--store', `sqlite:${join(await folder(), 'state.db')}`];
    await valise(['call', odd, 'hostility', ...store]);
    const runs = [
      [
        'call',
        odd,
        `raw ${JSON.stringify({ result: { content: [{ type: 'text', text: `${HOSTILE}\ud800` }] } })}`,
      ],
      [
        'call',
        odd,
        `raw ${JSON.stringify({ result: { content: [], structuredContent: { [HOSTILE]: HOSTILE } } })}`,
      ],
      [
        'call',
        odd,
        `raw ${JSON.stringify({ result: { content: [{ type: 'image', data: '', mimeType: HOSTILE }] } })}`,
      ],
      ['call', odd, 'hostile'],
      ['call', odd, 'ask'],
      ['call', odd, 'ask', '{}', '--answer', `${HOSTILE}=1`],
      ['call', odd, HOSTILE, '{}', '--answer', `${HOSTILE}=1`],
      ['list', odd],
      ['list', `${odd} hostile`],
      ['doctor', `${odd} hostile`],
      ['jar'],
      ['jar', 'show', odd],
      ['jar', 'export'],
      ['jar', 'clear', HOSTILE],
      ['sessions', 'show', HOSTILE],
      ['pending', 'answer', HOSTILE],
      ['pending', 'drop', HOSTILE],
      ['token', HOSTILE, '--bind', HOSTILE],
      ['call', odd, 'first', `{${HOSTILE}`],
      ['call', HOSTILE, 'first'],
      [HOSTILE],
      ['tour', '--story', HOSTILE],
    ];
    for (const args of runs) {
      const own = ['token', 'tour', HOSTILE].includes(args[0] as string) ? [] : store;
      expectEscaped(await valise([...args, ...own]), args.join(' '));
      const hasJson = /^(call|list|doctor|sessions|pending answer)/.test(args.join(' '));
      if (hasJson) expectEscaped(await valise([...args, ...own, '--json']), `${args.join(' ')} --json`);
    }
  });

  it('escapes what a store holds: connections, sessions and pending calls', async () => {
    const url = `sqlite:${join(await folder(), 'state.db')}`;
    const store = ['--store', url, '--insecure-plaintext'];
    const notebook = await serveExample(['notebook']);
    await valise(['call', notebook.url, 'notebook_append', '{"text":"x"}', '--session', 'diary', ...store]);
    await leaveWaiting(url);
    for (const text of ['diary', 'update_work_item', 'Fixed', '2025-11-25', '2026-07-28'])
      await tamper(url, (json) => json.replaceAll(JSON.stringify(text), JSON.stringify(HOSTILE)));
    for (const args of [['sessions'], ['sessions', 'show', HOSTILE], ['pending'], ['status']])
      for (const more of [[], ['--json']])
        expectEscaped(await valise([...args, ...more, '--store', url]), [...args, ...more].join(' '));
  });

  it('escapes the payload, purpose and audience of a token', async () => {
    const keys = generateKey();
    const sealer = createSealer({ keys: parseKeys(keys), audience: HOSTILE });
    const token = sealer.seal({ [HOSTILE]: `${HOSTILE}\ud800` }, { purpose: HOSTILE, ttl: 3600 });
    for (const more of [[], ['--reveal'], ['--json'], ['--reveal', '--json']]) {
      const ran = await valise(['token', token, ...more], { VALISE_KEYS: keys });
      expect(ran.code).toBe(0);
      expectEscaped(ran, `token ${more.join(' ')}`);
    }
  });

  it('escapes what an SDK writes to the console', () => {
    const script = `const { main } = await import(${JSON.stringify(`${VALISE}/../../cli/dist/main.js`)});
await main(['keys', 'generate']);
for (const name of ['log', 'info', 'debug', 'warn', 'error']) console[name]('%s', ${JSON.stringify(HOSTILE)});`;
    const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
      encoding: 'utf8',
    });
    expectEscaped({ stdout, stderr: '' }, 'stdout');
    expectEscaped({ stdout: '', stderr }, 'stderr');
  });

  it.skipIf(!hasTmux)(
    'escapes a question on a terminal, and does not send a default that cannot be shown',
    async () => {
      const call = [process.execPath, VALISE, 'call', odd, 'ask', '--store', 'memory:'];
      const terminal = await onTerminal(call);
      await terminal.shows(/● Accept/);
      await terminal.type('Enter');
      await terminal.shows(/its default has\s+characters that are not shown/);
      await terminal.type('Enter');
      await terminal.shows(/● a\\u001b/);
      await terminal.type('Enter');
      await terminal.shows(/accept\s+exit code 0/);
      const written = await terminal.written();
      expect(written).toContain('\\u202e');
      for (const char of [
        '\u001b]0;',
        '\u0007',
        '\u009b',
        '\u202e',
        '\u2066',
        '\u200b',
        '\u2028',
        '\u{e0041}',
      ])
        expect(written.includes(char), JSON.stringify(char)).toBe(false);
    },
  );
});

describe('an error message of 400 KB', { timeout: 60_000 }, () => {
  it('does not hang the command, even if it looks like the beginning of many URLs', async () => {
    const { code, stderr } = await valise(['call', odd, 'long', '--store', 'memory:']);
    expect(code).toBe(1);
    expect(stderr.length).toBeGreaterThan(400_000);
  });
});

describe('valise pending', { timeout: 60_000 }, () => {
  it.each([
    [
      'https://pаypal.example/оk',
      'a page of xn--pypal-4ve.example: https://xn--pypal-4ve.example/%D0%BEk Careful: xn--pypal-4ve.example is shown by browsers as pаypal.example.',
    ],
    [
      'https://bank.example@evil.example/',
      'a page of evil.example: https://bank.example@evil.example/ Careful: what stands before @ is not the host.',
    ],
    ['http://pay.example/', 'a page of pay.example: http://pay.example/ Careful: http: is not encrypted.'],
    ['http://127.0.0.1:3000/', 'a page of 127.0.0.1: http://127.0.0.1:3000/ '],
    ['https://pay.example/', 'a page of pay.example: https://pay.example/ '],
    ['javascript:alert(1)', 'a javascript: URL. Do not: only http: and https: URLs are pages.'],
    ['file:///etc/passwd', 'a file: URL. Do not: only http: and https: URLs are pages.'],
    ['nonsense', 'something that is no URL. Do not: only http: and https: URLs are pages.'],
  ])('shows where a question leads that asks to open %s', async (page, told) => {
    const store = `sqlite:${join(await folder(), 'state.db')}`;
    await leaveWaiting(store);
    const question = `"mode":"url","url":${JSON.stringify(page)},"requestedSchema":`;
    await tamper(store, (json) => json.replaceAll('"requestedSchema":', question));
    const { stdout } = await valise(['pending', '--store', store]);
    expect(stdout).toContain(`The server asks you to open ${told}`);
  });
});
