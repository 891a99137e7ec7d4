import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { json, text } from 'node:stream/consumers';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it, onTestFinished } from 'vitest';
import { explain, whatOnly } from '../../cli/src/output/exit.ts';
import { ValiseError } from '../../src/core/errors.ts';
import { folder, serveExample, VALISE, valise, valiseJson } from './valise.ts';

const memory = ['--store', 'memory:'];

/** A server that is not what it ought to be; its URL. */
async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
}

/** A URL at which nobody listens. */
async function deadUrl(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return `http://127.0.0.1:${port}/mcp`;
}

interface Failed {
  readonly error: { readonly code: unknown; readonly message: string; readonly data?: unknown };
}

describe('what the command says where it fails', { timeout: 60_000 }, () => {
  it('takes a variable that is empty for one that is not set', async () => {
    const env = { HOME: await folder(), VALISE_STORE: '', VALISE_KEYS: ' ', VALISE_BROWSER: '' };
    expect(await valise(['status'], env)).toMatchObject({ code: 0, stderr: '' });
  });

  it.each(['v1', 'v2'])(
    'names what is behind a failed fetch, and asks whether the server runs (%s)',
    async (sdk) => {
      const url = await deadUrl();
      const ran = await valise(['call', url, 'x', '--sdk', sdk, ...memory]);
      expect(ran.code).toBe(1);
      expect(ran.stderr).toContain(`ECONNREFUSED ${new URL(url).host}. Is the server running there?`);
      const { error } = await valiseJson<Failed>(['call', url, 'x', '--sdk', sdk, ...memory]);
      expect(error.message).toContain('ECONNREFUSED');
      expect(error.code).toBe('ECONNREFUSED');
      expect(error.data).toBeUndefined();
    },
  );

  it('tells a host that nobody knows, and a port that speaks no TLS', async () => {
    const unknown = await valise(['list', 'https://nosuch.invalid/mcp', ...memory]);
    expect(unknown.stderr).toContain('Is the name of the host right');
    const plain = await serve((_request, response) => response.end());
    const tls = await valise(['list', plain.replace('http:', 'https:'), ...memory]);
    expect(tls.stderr).toMatch(/reached: wrong version number\. Does it speak https: at that port\?.*\n$/);
    const blocked = await valise(['list', 'http://127.0.0.1:6000/mcp', ...memory]);
    expect(blocked.stderr).toContain('That port belongs to another protocol');
  });

  it.each([
    ['localhost:3000/mcp', ' Is it http://localhost:3000/mcp?'],
    ['127.0.0.1:3000/mcp', ' Is it http://127.0.0.1:3000/mcp?'],
    ['shop.example.com/mcp', ' Is it https://shop.example.com/mcp?'],
    ['node server.js', " Is it 'stdio:node server.js'?"],
    ['shop', ''],
    ['ftp://shop.example.com/', ''],
  ])('asks whether the beginning is missing of the target %s', async (target, likely) => {
    const { code, stderr } = await valise(['list', target, ...memory]);
    expect(code).toBe(2);
    expect(stderr).toBe(
      `valise: "${target}" is not a target. Give an http(s) URL, or 'stdio:COMMAND ARGS'.${likely}\n`,
    );
  });

  it.each(['v1', 'v2'])('names what there is to call where a call is refused (%s)', async (sdk) => {
    const { url } = await serveExample(['shop']);
    const ran = await valise(['call', url, 'veiw_cart', '--sdk', sdk, ...memory]);
    expect(ran.code).toBe(1);
    expect(ran.stderr).toMatch(/veiw_cart not found\. What there is to call: valise list http:\S+\n$/);
  });

  it('names the option that is empty, and asks for another file of keys', async () => {
    const { code, stderr } = await valise(['jar', '--principal', '', ...memory]);
    expect(code).toBe(2);
    expect(stderr).toContain('--principal has an empty name.');
    const keys = join(await folder(), 'empty.env');
    await writeFile(keys, '', { mode: 0o600 });
    expect((await valise(['keys', 'list', '--key-file', keys])).stderr).toContain('Give another file.');
  });

  it('tells the status that a server answered with, and what it may mean', async () => {
    const wrong = await serve((_request, response) => response.writeHead(404).end());
    const path = await valise(['call', wrong, 'x', ...memory]);
    expect(path).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('HTTP 404 Not Found. Is the path'),
    });
    const closed = await serve((_request, response) => response.writeHead(401).end('no\u001b[2Kbody'));
    const bearer = await valise([
      'call',
      closed,
      'x',
      '-H',
      'Authorization: Bearer bad',
      '--era',
      'legacy',
      ...memory,
    ]);
    expect(bearer.stderr).toContain('HTTP 401 Unauthorized: no\\u001b[2Kbody.');
    expect(bearer.stderr).toContain('check the header');
  });

  it.each(['v1', 'v2'])('tells an answer that is not MCP, and asks for the path (%s)', async (sdk) => {
    const page = '<!doctype html>\n<p>Hello';
    for (const [status, type, body, told] of [
      [200, 'text/html', page, 'answered with text/html, which is not MCP. Is the path'],
      [200, 'application/json', '{"hello":1}', 'with JSON that is no message of MCP. Is the path'],
      [200, 'application/json', '{"hel', 'with JSON that cannot be read (U'],
      [404, 'text/html', page, 'answered with HTTP 404 Not Found. Is the path'],
      [500, 'text/html', page, 'answered with HTTP 500 Internal Server Error. Ask whoever runs'],
      [429, 'text/plain', 'slow down.', 'HTTP 429 Too Many Requests: slow down. Wait a while'],
      [
        400,
        'application/json',
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no tenant"}}',
        'answered with HTTP 400 Bad Request: no tenant. Ask whoever runs the server.',
      ],
    ] as const) {
      const url = await serve((_request, response) =>
        response.writeHead(status, { 'content-type': type }).end(body),
      );
      const ran = await valise(['call', url, 'x', '--sdk', sdk, ...memory]);
      expect(ran).toMatchObject({ code: 1, stderr: expect.stringContaining(told) });
      expect(ran.stderr.trim().split('\n')).toHaveLength(1);
    }
  });

  it.each(['v1', 'v2'])(
    'asks whether a command runs by itself that ends with other words (%s)',
    async (sdk) => {
      expect(await valise(['list', 'stdio:echo hello', '--sdk', sdk, ...memory])).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/Connection closed: .* Does its command run by itself\?\n$/),
      });
    },
  );

  it('prints what a server says that crashes at its start once', async () => {
    const path = join(await folder(), 'crash.mjs');
    await writeFile(path, "console.error('no API \\u001b[2Jkey'); process.exit(1);");
    const { code, stderr } = await valise(['list', `stdio:${process.execPath} ${path}`, ...memory]);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^no API \\u001b\[2Jkey\nvalise: Connection closed: .*\n$/);
  });

  it('tells a server of the older era from others, and names the way out', async () => {
    const odd = `stdio:${process.execPath} ${join(import.meta.dirname, 'odd-server.mjs')}`;
    const refused = 'The server does not speak 2026-07-28';
    const ran = await valise(['call', odd, 'first', '--era', 'modern', ...memory]);
    expect(ran).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(new RegExp(`^valise: ${refused}.*\\. Leave out --era modern\\.\n$`)),
    });
    const { findings } = await valiseJson<{ findings: { check: string; what: string }[] }>([
      ...['doctor', odd],
      ...memory,
    ]);
    expect(findings.find(({ check }) => check === 'era modern')?.what).toContain(refused);
  });

  it.each([
    [{ content: [] }, 'missing required resultType'],
    [{ resultType: 'complete', content: [{ type: 'text' }] }, 'content.0.text: '],
    [{ resultType: 'complete', content: [{ type: 'smell' }, { type: 'text' }] }, 'content.0.type: '],
    [{ resultType: 'complete', content: 1 }, 'content: '],
  ])('tells in one line what is wrong with the result %j of 2026-07-28', async (result, told) => {
    const discovered = {
      resultType: 'complete',
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: {} },
      serverInfo: { name: 'newer', version: '1.0.0' },
      ttlMs: 0,
      cacheScope: 'private',
    };
    const url = await serve(async (request, response) => {
      const { id, method } = (await json(request)) as { id: number; method: string };
      const answer = { jsonrpc: '2.0', id, result: method === 'tools/call' ? result : discovered };
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
    });
    const ran = await valise(['call', url, 'x', ...memory]);
    expect(ran).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`answer to tools/call is not as MCP has it (${told}`),
    });
    expect(ran.stderr.trim().split('\n')).toHaveLength(1);
  });

  it('tells what happened, then why, and the next step last', async () => {
    const cause = new Error('wrapped', { cause: new Error('the disk is full.\nat a place') });
    const error = new ValiseError('closed', 'It could not be written.', { next: 'Make room.', cause });
    expect(explain(error)).toBe('It could not be written (the disk is full). Make room.');
    expect(whatOnly(error)).toBe('It could not be written (the disk is full).');
    const missing = new Error("Cannot find package 'pg' imported from somewhere");
    const named = new ValiseError('closed', 'The package pg is missing.', {
      next: 'Install it.',
      cause: missing,
    });
    expect(explain(named)).toBe('The package pg is missing. Install it.');
    const store = `sqlite:${join(await folder(), 'state.db')}`;
    const odd = `stdio:${process.execPath} ${join(import.meta.dirname, 'odd-server.mjs')}`;
    const sealed = await valise(['call', odd, 'first', '--store', store], {
      VALISE_CLIENT_KEYS: generateKey(),
    });
    expect(sealed.code).toBe(0);
    const { stderr } = await valise(['jar', '--store', store], { VALISE_CLIENT_KEYS: generateKey() });
    expect(stderr).toMatch(
      /^valise: The store was sealed with another key \(its id is [\w-]+\)\. Add that key .*\n$/,
    );
  });

  it('shows no password of a URL', async () => {
    for (const url of ['http://me:secret@127.0.0.1:1/mcp', 'ftp://me:secret@host/'])
      for (const command of [
        ['call', url, 'x'],
        ['doctor', url],
        ['status', url],
        ['logout', url],
      ]) {
        const { code, stdout, stderr } = await valise([...command, ...memory]);
        expect(code).toBe(2);
        expect(stdout + stderr).not.toContain('secret');
      }
  });

  it('gives the error as one line of JSON in every command, and ends with 2 where the line was not understood', async () => {
    for (const args of [
      ['list', 'nowhere'],
      ['status', 'nowhere'],
      ['logout', 'nowhere'],
      ['doctor', 'nowhere'],
      ['call', 'http://x.example.com', 't', 'not json'],
      ['call', 'http://x.example.com', 't', '{}', '--answer', 'nothing'],
      ['call', 'http://x.example.com', 't', '--resolve', 'x.example.com:99999:127.0.0.1'],
      ['call', 'http://x.example.com', 't', '--era', 'future'],
      ['call', 'http://x.example.com', 't', '--era', 'modern', '--sdk', 'v1'],
      ['call', 'http://x.example.com', 't', '-H', 'X-Shop: é€'],
      ['example', 'shop'],
      ['example', 'shop', '--stdio', '--http', '0'],
      ['example', 'shop', '--stdio', '--sdk', 'v3'],
      ['example', 'shop', '--stdio', '--sdk=v3'],
      ['example', 'shop', '--http', 'abc'],
      ['example', 'shop', '--http'],
      ['example', 'shop', '--nonsense'],
      ['example', 'notebook', '--http', '0', '--ttl', 'banana'],
      ['example', 'shop', '--stdio', '--store', 'foo:bar'],
      ['call', 'http://x.example.com', 't', '--store', 'foo:bar'],
      ['jar', '--store', 'sqlite:'],
      ['jar', '--store', 'sqlite::memory:'],
      ['jar', '--store', 'redis://127.0.0.1:1/abc'],
      ['jar', '--store', 'memory:', '--principal', ''],
      ['call', 'http://x.example.com', 't', '--store', 'memory:', '--principal', ''],
      ['status', '--store', ''],
    ]) {
      const ran = await valise([...args, '--json']);
      expect(ran.code, args.join(' ')).toBe(2);
      expect((JSON.parse(ran.stdout) as Failed).error.message).toBeTypeOf('string');
    }
    const header = await valise(['call', 'http://x.example.com', 't', '-H', 'X-Shop: é€']);
    expect(header).toMatchObject({ code: 2, stderr: expect.stringContaining('The value of X-Shop has') });
    const { error } = await valiseJson<Failed>(['jar', '--store', 'gopher://x']);
    expect(error.message).toContain('names no kind of store');
  });

  it.each(['Authorization: s3cr3t é€', 'Authorization s3cr3t', 'Authorization: s3cr3t\n x'])(
    'shows nothing of a header that it refuses: %j',
    async (header) => {
      for (const command of [
        ['call', 'http://x.example.com', 't'],
        ['connect', 'http://x.example.com'],
      ]) {
        const { code, stdout, stderr } = await valise([...command, '-H', header]);
        expect(code).toBe(2);
        expect(stderr).toMatch(/^valise: .*header.*\n$/);
        expect(stdout + stderr).not.toContain('s3cr3t');
      }
    },
  );

  it('names VALISE_CLIENT_KEYS where it is bad, and a port that is taken', async () => {
    const keys = await valise(['jar', ...memory], { VALISE_CLIENT_KEYS: 'abc' });
    expect(keys).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^valise: VALISE_CLIENT_KEYS: .*valise keys generate\n$/),
    });
    const { port } = await serveExample(['shop']);
    const taken = await valise(['example', 'shop', '--http', port]);
    expect(taken).toMatchObject({ code: 1, stderr: expect.stringContaining('choose another port, or 0') });
  });

  it('says what it waits for', async () => {
    const path = join(await folder(), 'silent.mjs');
    await writeFile(path, 'process.stdin.resume();');
    const child = spawn(process.execPath, [
      VALISE,
      'list',
      `stdio:${process.execPath} ${path} postgres://me:secret@db/x`,
      ...memory,
    ]);
    onTestFinished(() => void child.kill('SIGKILL'));
    let said = '';
    await new Promise<void>((resolve) =>
      child.stderr.on('data', (chunk) => {
        said += chunk;
        if (said.includes('\n')) resolve();
      }),
    );
    expect(said).toMatch(
      /^valise: still waiting for stdio:.*silent\.mjs postgres:\/\/…@db\/x to answer \(\d+ s\)\n/,
    );
    child.stdin.end();
  });

  it('ends quietly if its output is closed', async () => {
    const child = spawn('bash', [
      '-c',
      `"$0" "$1" call --help | :; echo "\${PIPESTATUS[0]}"`,
      process.execPath,
      VALISE,
    ]);
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
    expect({ stdout, stderr }).toEqual({ stdout: '0\n', stderr: '' });
  });
});
