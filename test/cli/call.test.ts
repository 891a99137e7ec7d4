import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { folder, serveExample, VALISE, valise, valiseJson } from './valise.ts';

interface Called {
  readonly content: readonly { readonly text: string }[];
  readonly structuredContent?: Record<string, unknown>;
}
const textOf = (result: Called): string | undefined => result.content[0]?.text;
const storeIn = (path: string): string => `sqlite:${join(path, 'state.db')}`;

describe('valise call', () => {
  it('[J-11] carries server-scope state from one process to the next', async () => {
    const { port } = await serveExample(['shop']);
    const site = `http://shop.example.com:${port}/mcp`;
    const common = ['--resolve', `shop.example.com:${port}:127.0.0.1`, '--store', storeIn(await folder())];
    expect(await valise(['call', site, 'remember', '{"name":"size","value":"L"}', ...common])).toMatchObject({
      code: 0,
      stdout: 'Remembered size.\n',
    });
    for (const extra of [[], ['--sdk', 'v1'], ['--era', 'legacy'], ['--era', 'modern']]) {
      expect(
        textOf(await valiseJson<Called>(['call', site, 'recall', '{"name":"size"}', ...common, ...extra])),
      ).toBe('L');
    }
  });

  it('goes to the address of --resolve *:PORT for any host that no other --resolve names, as curl does', async () => {
    const { port } = await serveExample(['shop']);
    const { port: other } = await serveExample(['vault']);
    const any = ['--resolve', `*:${port}:127.0.0.1`];
    const tools = async (host: string, ...resolve: string[]) =>
      (await valise(['list', `http://${host}:${port}/mcp`, '--store', 'memory:', ...resolve])).stdout;
    expect(await tools('a.example.com', ...any)).toContain('view_cart');
    const named = ['--resolve', `b.example.com:${port}:127.0.0.1:${other}`];
    expect(await tools('b.example.com', ...any, ...named)).toContain('increment');
  });

  it('goes by the last --resolve for a host and port, as curl does', async () => {
    const { port } = await serveExample(['shop']);
    const at = (address: string): string[] => ['--resolve', `a.example.com:${port}:${address}`];
    const list = ['list', `http://a.example.com:${port}/mcp`, '--store', 'memory:'];
    const ran = await valise([...list, ...at('127.0.0.1:1'), ...at('127.0.0.1')]);
    expect(ran).toMatchObject({ code: 0, stdout: expect.stringContaining('view_cart') });
    expect(ran.stderr).not.toContain('was not used');
  });

  it('[J-13] sends no server what another has set, and no principal what is another one’s', async () => {
    const { port } = await serveExample(['shop']);
    const store = storeIn(await folder());
    const at = (host: string): string[] => [
      'call',
      `http://${host}:${port}/mcp`,
      '--resolve',
      `${host}:${port}:127.0.0.1`,
      '--store',
      store,
    ];
    await valise([...at('a.example.com'), 'remember', '{"name":"x","value":"1"}']);
    expect(textOf(await valiseJson<Called>([...at('a.example.com'), 'recall', '{"name":"x"}']))).toBe('1');
    expect(textOf(await valiseJson<Called>([...at('b.example.com'), 'recall', '{"name":"x"}']))).toMatch(
      /^Nothing/,
    );
    const bob = ['--principal', 'bob'];
    expect(
      textOf(await valiseJson<Called>([...at('a.example.com'), 'recall', '{"name":"x"}', ...bob])),
    ).toMatch(/^Nothing/);
  });

  it('[J-16] keeps nothing for an address by default', async () => {
    const { url } = await serveExample(['shop', '--store', 'memory:']);
    const store = storeIn(await folder());
    await valise(['call', url, 'remember', '{"name":"x","value":"1"}', '--store', store]);
    expect(await valiseJson(['jar', '--store', store])).toEqual({ entries: [] });
    await valise(['call', url, 'remember', '{"name":"x","value":"1"}', '--store', store, '--allow-local']);
    expect(await valiseJson(['jar', '--store', store])).toMatchObject({
      entries: [{ server: '127.0.0.1', key: 'x' }],
    });
  });

  it('prints a tool’s own error, and an error of the protocol, and ends with 1', async () => {
    const target = `stdio:${process.execPath} ${VALISE} example shop --stdio`;
    const store = ['--store', 'memory:'];
    const unknown = await valise(['call', target, 'no_such_tool', '--json', ...store]);
    expect(unknown.code).toBe(1);
    expect(unknown.stdout.trim().split('\n')).toHaveLength(1);
    const wrong = await valise(['call', target, 'apply_coupon', '{"code":7}', '--json', ...store]);
    expect(wrong.code).toBe(1);
    expect(JSON.parse(wrong.stdout)).toBeTypeOf('object');
  });

  it('says what is wrong with the command line, and ends with 2, or that the call failed, and ends with 1', async () => {
    expect(await valise(['call'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("missing required argument 'target'"),
    });
    expect(await valise(['call', 'http://x.example.com', 't', '--resolve', 'nonsense'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('HOST:PORT:ADDRESS'),
    });
    expect(await valise(['call', 'ftp://x', 't', '--store', 'memory:'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Give an http(s) URL, or 'stdio:COMMAND ARGS'"),
    });
    const target = `stdio:${process.execPath} ${VALISE} example shop --stdio`;
    expect(await valise(['call', target, 't', '[1]', '--store', 'memory:'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('not a JSON object'),
    });
    expect(await valise(['call', 'http://127.0.0.1:9/mcp', 't', '--store', 'memory:'])).toMatchObject({
      code: 1,
    });
  });

  it('sends headers', async () => {
    const { createServer } = await import('node:http');
    const seen: unknown[] = [];
    const server = createServer((request, response) => {
      seen.push(request.headers['x-tenant']);
      response.writeHead(500).end();
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address() as { port: number };
    await valise(['call', `http://127.0.0.1:${port}/mcp`, 't', '-H', 'X-Tenant: acme', '--store', 'memory:']);
    server.closeAllConnections();
    server.close();
    expect(seen).toContain('acme');
  });
});

describe('real servers that nobody here wrote', () => {
  const bin = (name: string): string =>
    join(import.meta.dirname, `../../node_modules/@modelcontextprotocol/${name}/dist/index.js`);
  const at = (name: string, ...args: string[]): string =>
    `stdio:${process.execPath} ${bin(name)} ${args.join(' ')}`;

  it.each(['v1', 'v2'])('server-everything works unchanged through valise call (%s)', async (sdk) => {
    const target = at('server-everything', 'stdio');
    const result = await valiseJson<Called>([
      'call',
      target,
      'echo',
      '{"message":"hello"}',
      '--sdk',
      sdk,
      '--store',
      'memory:',
    ]);
    expect(textOf(result)).toBe('Echo: hello');
    const { stdout } = await valise(['list', target, '--sdk', sdk, '--store', 'memory:']);
    expect(stdout).toMatch(/^echo /m);
  });

  it('server-filesystem works unchanged', async () => {
    const path = await folder();
    const target = at('server-filesystem', path);
    const file = join(path, 'note.txt');
    const write = JSON.stringify({ path: file, content: 'kept' });
    expect(await valise(['call', target, 'write_file', write, '--store', 'memory:'])).toMatchObject({
      code: 0,
    });
    const read = await valiseJson<Called>([
      'call',
      target,
      'read_text_file',
      JSON.stringify({ path: file }),
      '--store',
      'memory:',
    ]);
    expect(textOf(read)).toBe('kept');
  });

  it('server-memory works unchanged', async () => {
    const target = at('server-memory');
    const result = await valiseJson<Called>([
      'call',
      target,
      'search_nodes',
      '{"query":"nobody"}',
      '--store',
      'memory:',
    ]);
    expect(JSON.parse(textOf(result) ?? '')).toEqual({ entities: [], relations: [] });
  });
});
