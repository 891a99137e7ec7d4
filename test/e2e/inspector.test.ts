import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { generateKey } from 'mcp-valise/seal';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { toolPath } from '../../scripts/conformance.mjs';
import { noServices } from '../services.ts';
import { because } from '../skip.ts';
import { commandOf, type Running, startHttp } from './example.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const everything = join(root, 'node_modules/@modelcontextprotocol/server-everything/dist/index.js');
const TIMEOUT = 120_000;

/** The inspector's program; undefined, with the reason said aloud, where it cannot be had. */
const inspector = await (async () => {
  const skip = (why: string) => void process.stderr.write(`SKIPPED: the official inspector (${why})\n`);
  if (noServices) return skip('VALISE_NO_SERVICES=1');
  return toolPath('inspector').catch((error: Error) => skip(error.message));
})();

interface Answer {
  readonly _meta?: Record<string, unknown>;
  readonly content?: readonly { readonly text: string }[];
}

/** How the inspector reaches a server: an address, or a command that it starts. */
type Target =
  | { readonly url: string; readonly era?: 'modern' }
  | { readonly command: string; readonly args: readonly string[] };

describe.skipIf(!inspector)('the official inspector', because('the inspector cannot be installed'), () => {
  const keys = generateKey();
  let folder: string;
  let shop: Running & { readonly url: URL };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'valise-inspector-'));
    shop = await startHttp('shop', [], { VALISE_KEYS: keys });
  }, TIMEOUT);
  afterAll(async () => {
    await shop?.stop('SIGTERM');
    await rm(folder, { recursive: true, force: true });
  });

  /** Runs the inspector's command line for one request. */
  async function inspect(target: Target, args: readonly string[]): Promise<Answer> {
    const child = spawn(
      process.execPath,
      [inspector as string, '--cli', ...(await to(target)), ...args, '--format', 'json'],
      {
        env: { ...process.env, HOME: folder },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    let out = '';
    let said = '';
    child.stdout.on('data', (chunk) => (out += chunk));
    child.stderr.on('data', (chunk) => (said += chunk));
    // Not the child's own end: a server that outlives the inspector holds on to its standard error.
    await once(child.stdout, 'close');
    try {
      return (JSON.parse(out) as { readonly result: Answer }).result;
    } catch {
      throw new Error(`The inspector said: ${out}${said}`);
    }
  }

  async function to(target: Target): Promise<string[]> {
    if ('url' in target) return [target.url, ...(target.era ? ['--protocol-era', target.era] : [])];
    const config = join(folder, 'config.json');
    const env = { VALISE_KEYS: keys, VALISE_STORE: 'memory:' };
    await writeFile(config, JSON.stringify({ mcpServers: { it: { ...target, env } } }));
    return ['--config', config, '--server', 'it'];
  }

  const call = (target: Target, tool: string, args: Record<string, unknown>, meta: Record<string, unknown>) =>
    inspect(target, [
      ...['--method', 'tools/call', '--tool-name', tool],
      ...(Object.keys(args).length > 0 ? ['--tool-arg', ...pairs(args)] : []),
      ...['--metadata', ...pairs(meta)],
    ]);

  const legacy = (scope: 'session' | 'server', held: object) => ({
    [`modelcontextprotocol.io/state/${scope}`]: held,
  });
  const modern = (scope: 'session' | 'server', held: object) => ({ 'dev.valise/state': { [scope]: held } });

  describe.each([
    { way: 'HTTP, 2025-11-25', to: (): Target => ({ url: shop.url.href }), meta: legacy },
    { way: 'HTTP, 2026-07-28', to: (): Target => ({ url: shop.url.href, era: 'modern' }), meta: modern },
    { way: 'stdio', to: (): Target => commandOf('shop', '--stdio'), meta: legacy },
  ])('the shop over $way', ({ to, meta }) => {
    it('[J-02] [J-03] the inspector reads and writes the state of the shop through --metadata', {
      timeout: TIMEOUT,
    }, async () => {
      const added = await call(
        to(),
        'add_item',
        { item: 'tomato', price: 60 },
        meta('session', { 'Cart Contents': { items: ['cucumber'], price: 40 } }),
      );
      const cart = meta('session', { 'Cart Contents': { items: ['cucumber', 'tomato'], price: 100 } });
      expect(added._meta).toMatchObject(cart);
      const viewed = await call(to(), 'view_cart', {}, cart);
      expect(viewed.content?.[0]?.text).toBe('Cart: cucumber, tomato; total 100');

      const remembered = await call(to(), 'remember', { name: 'size', value: 'L' }, meta('server', {}));
      expect(remembered._meta).toMatchObject(meta('server', { size: expect.stringMatching(/^v1\./) }));
      // Sealed by another process, where the inspector starts the server anew for each call.
      const recalled = await call(to(), 'recall', { name: 'size' }, remembered._meta ?? {});
      expect(recalled.content?.[0]?.text).toBe('L');
    });
  });

  const document = 'demo://resource/static/document/features.md';
  it.each([
    { method: 'tools/list', args: [], has: { tools: expect.any(Array) } },
    {
      method: 'tools/call',
      args: ['--tool-name', 'echo', '--tool-arg', 'message=hi'],
      has: { content: [{ text: 'Echo: hi' }] },
    },
    { method: 'resources/list', args: [], has: { resources: expect.any(Array) } },
    { method: 'resources/read', args: ['--uri', document], has: { contents: [{ uri: document }] } },
    { method: 'prompts/list', args: [], has: { prompts: expect.any(Array) } },
    {
      method: 'prompts/get',
      args: ['--prompt-name', 'args-prompt', '--prompt-args', 'city=Ulm'],
      has: { messages: [{ content: { text: expect.stringContaining('Ulm') } }] },
    },
  ])(
    'the inspector sees the same through `valise connect` as without it: $method',
    { timeout: TIMEOUT },
    async ({ method, args, has }) => {
      const words = ['--method', method, ...args];
      const direct = await inspect({ command: process.execPath, args: [everything, 'stdio'] }, words);
      const bridged = await inspect(
        {
          command: process.execPath,
          args: [join(root, 'bin/valise.js'), 'connect', `stdio:${process.execPath} ${everything} stdio`],
        },
        words,
      );
      expect(direct).toMatchObject(has);
      expect(bridged).toEqual(direct);
    },
  );
});

function pairs(values: Record<string, unknown>): string[] {
  return Object.entries(values).map(
    ([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
}
