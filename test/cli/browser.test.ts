import { readFile, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it } from 'vitest';
import { serveOAuth } from '../client/oauth-server.ts';
import { folder, valise } from './valise.ts';

interface Started {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly shell?: unknown;
}

/** What follows the origin of a sign-in page. A shell of Windows, or any other, would make something of each of them. */
const HOSTILE = [
  '/authorize&calc.exe&',
  '/authorize?x=1&calc.exe&y=%26calc.exe%26',
  '/authorize"&calc.exe&"',
  "/authorize?x=';calc.exe;'",
  '/authorize?x=`calc.exe`&y=$(calc.exe)',
  '/authorize?%PATH%=%COMSPEC%^|calc.exe',
  '/authorize\r\ncalc.exe\n',
  '/authorize?x=\u2019;calc.exe;\u2019 -e | <calc.exe>',
];

/** Lets the command believe that it runs on another system, and notes what it starts in place of starting it. */
async function elsewhere(platform: string): Promise<{ env: Record<string, string>; note: string }> {
  const path = await folder();
  const preload = join(path, 'elsewhere.mjs');
  const note = join(path, 'started.json');
  await writeFile(
    preload,
    `import child from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
Object.defineProperty(process, 'platform', { value: ${JSON.stringify(platform)} });
child.spawn = (command, args, { env = process.env, shell } = {}) => {
  writeFileSync(${JSON.stringify(note)}, JSON.stringify({ command, args, env, shell }));
  process.exit(0);
};
syncBuiltinESMExports();
`,
  );
  return { env: { NODE_OPTIONS: `--import=${pathToFileURL(preload)}` }, note };
}

async function signInAt(
  endpoint: (origin: string) => string,
  env: Readonly<Record<string, string>>,
): Promise<Awaited<ReturnType<typeof valise>>> {
  const url = await serveOAuth((origin) => ({ metadata: { authorization_endpoint: endpoint(origin) } }));
  const own = { VALISE_KEYS: generateKey(), VALISE_STORE: 'memory:', VALISE_SECRET: 'of-ours' };
  return valise(['list', url], { ...own, ...env });
}

const read = async (note: string): Promise<Started> => JSON.parse(await readFile(note, 'utf8')) as Started;

describe('the sign-in page', { timeout: 60_000 }, () => {
  it.each(HOSTILE)('Windows opens the sign-in page without a shell that could read %j', async (hostile) => {
    const { env, note } = await elsewhere('win32');
    await signInAt((origin) => `${origin}${hostile}`, { ...env, SystemRoot: 'C:\\Windows' });
    const { command, args, shell } = await read(note);
    expect(command).toBe('C:\\Windows\\System32\\rundll32.exe');
    expect(args).toHaveLength(2);
    expect(args[0]).toBe('url.dll,FileProtocolHandler');
    // Nothing in it has to be quoted, so nothing that quotes it can be mistaken.
    expect(args[1]).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/authorize[^\s"'<>\p{Cc}]*$/u);
    expect(shell ?? false).toBe(false);
  });

  it.each([
    ['darwin', '/usr/bin/open'],
    ['linux', 'xdg-open'],
    ['win32', 'C:\\Windows\\System32\\rundll32.exe'],
  ])(
    'the sign-in page is opened on %s by %s, which gets none of our variables',
    async (platform, program) => {
      const { env, note } = await elsewhere(platform);
      await signInAt((origin) => `${origin}/authorize`, { ...env, SystemRoot: 'C:\\Windows', Valise_x: '1' });
      const started = await read(note);
      expect(started.command).toBe(program);
      expect(Object.keys(started.env).filter((name) => /^valise_/i.test(name))).toEqual([]);
      expect(started.env['PATH']).toBeDefined();
    },
  );

  it('xdg-open gets the sign-in page as one argument', async () => {
    const path = await folder();
    const note = join(path, 'started.json');
    await writeFile(
      join(path, 'xdg-open'),
      `#!${process.execPath}
const [, , page, ...more] = process.argv;
require('node:fs').writeFileSync(${JSON.stringify(note)}, JSON.stringify({ args: [page, ...more], env: process.env }));
const { searchParams } = new URL(page);
fetch(searchParams.get('redirect_uri') + '?error=access_denied&state=' + searchParams.get('state'));
`,
      { mode: 0o755 },
    );
    const { code } = await signInAt((origin) => `${origin}/authorize?x=$(touch%20y)&z=\`id\``, {
      PATH: `${path}${delimiter}${process.env['PATH']}`,
    });
    expect(code).toBe(1);
    const { args, env } = await read(note);
    expect(args).toEqual([expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/authorize\?x=/)]);
    expect(Object.keys(env).filter((name) => name.startsWith('VALISE_'))).toEqual([]);
  });

  it.each([
    'file:///C:/Windows/System32/calc.exe',
    'javascript:alert(1)',
    'data:text/html,hello',
    'vbscript:x',
    'ms-settings:network',
    'search-ms:query=x&crumb=location:%5C%5Cevil.example',
    'calculator:',
    '\\\\evil.example\\share\\x.exe',
  ])('a sign-in page is not opened if its URL is %s', async (endpoint) => {
    const { env, note } = await elsewhere('win32');
    const { code, stderr } = await signInAt(() => endpoint, env);
    expect(code).toBe(1);
    expect(stderr).not.toContain('Sign in here');
    await expect(readFile(note)).rejects.toThrow('ENOENT');
  });
});
