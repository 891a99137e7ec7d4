import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { folder, valise, valiseJson } from './valise.ts';

/** The smallest PNG, as far as these tests are concerned. */
const PNG = Buffer.from('89504e470d0a1a0a', 'hex');

/** A server of the older era with a tool, resources and prompts. */
const SERVER = `
import { createInterface } from 'node:readline';
const png = '${PNG.toString('base64')}';
const write = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n');
const tools = [{ name: 'draw', description: 'Draws.', inputSchema: { type: 'object', required: ['what'], properties: {
  size: { type: 'number' }, what: { type: 'string' }, tags: { type: 'array', items: { type: 'string' } }, mode: { enum: ['a', 'b'] } } } }];
const results = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {}, resources: {}, prompts: {} }, serverInfo: { name: 'media', version: '1' } }),
  'tools/list': () => ({ tools }),
  'tools/call': ({ _meta }) => {
    for (const progress of [1, 2]) write({ method: 'notifications/progress', params: { progressToken: _meta.progressToken, progress, total: 2, message: 'step ' + progress } });
    return { content: [{ type: 'text', text: 'Here it is.' }, { type: 'image', data: png, mimeType: 'image/png' },
      { type: 'resource', resource: { uri: 'file:///../../.evil/..%2f.bashrc', mimeType: 'application/x', blob: png } }] };
  },
  'resources/list': ({ cursor }) => cursor ? { resources: [{ uri: 'notes://two', name: 'two' }] } : { resources: [{ uri: 'notes://one', name: 'one', mimeType: 'text/plain' }], nextCursor: 'x' },
  'resources/templates/list': () => undefined,
  'resources/read': ({ uri }) => ({ contents: [uri === 'notes://one' ? { uri, text: 'first note' } : { uri, blob: png, mimeType: 'image/png' }] }),
  'prompts/list': () => ({ prompts: [{ name: 'greet', arguments: [{ name: 'who', required: true }, { name: 'tone' }] }] }),
  'prompts/get': ({ arguments: { who } }) => ({ messages: [{ role: 'user', content: { type: 'text', text: 'Greet ' + who } }] }),
};
let calling;
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params = {} } = JSON.parse(line);
  if (id === undefined) continue;
  // The client has taken the progress once it answers what came after it.
  if (method === undefined) { write(calling); continue; }
  const result = results[method]?.(params);
  const answer = result ? { id, result } : { id, error: { code: -32601, message: 'Method not found' } };
  if (method !== 'tools/call') write(answer);
  else { calling = answer; write({ id: 'ping', method: 'ping' }); }
}
`;

const memory = ['--store', 'memory:'];

async function target(): Promise<string> {
  const path = join(await folder(), 'media.mjs');
  await writeFile(path, SERVER);
  return `stdio:${process.execPath} ${path}`;
}

describe.each(['v1', 'v2'])('what a server offers besides tools (%s)', { timeout: 60_000 }, (sdk) => {
  const options = ['--sdk', sdk, ...memory];

  it('is listed with the arguments of tools and prompts, and all pages', async () => {
    const media = await target();
    const { code, stdout } = await valise(['list', media, ...options]);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /draw +what: string, size\?: number, tags\?: string\[\], mode\?: "a"\|"b" +Draws\.\n/,
    );
    expect(stdout).toMatch(/notes:\/\/one +text\/plain +one\nnotes:\/\/two +- +two\n/);
    expect(stdout).toMatch(/greet +who, tone\?\n/);
    const listed = await valiseJson<Record<string, unknown[]>>(['list', media, ...options]);
    expect(Object.entries(listed).map(([name, items]) => [name, items.length])).toEqual([
      ['tools', 1],
      ['resources', 2],
      ['resourceTemplates', 0],
      ['prompts', 1],
    ]);
  });

  it('is read with valise read, and saved with --out', async () => {
    const media = await target();
    const path = join(await folder(), 'two.png');
    expect(await valise(['read', media, 'notes://one', ...options])).toMatchObject({
      code: 0,
      stdout: 'first note\n',
    });
    const { stdout } = await valise(['read', media, 'notes://two', ...options]);
    expect(stdout).toBe('[image/png, 8 B; save it with --out]\n');
    await valise(['read', media, 'notes://two', '--out', path, ...options]);
    expect(await readFile(path)).toEqual(PNG);
    await valise(['read', media, 'notes://one', '--out', path, ...options]);
    expect(await readFile(path, 'utf8')).toBe('first note');
  });

  it('is a prompt that valise prompt gets', async () => {
    const media = await target();
    expect(await valise(['prompt', media, 'greet', '{"who":"Ada"}', ...options])).toMatchObject({
      code: 0,
      stdout: 'user:\nGreet Ada\n',
    });
  });

  it('is progress, told on stderr, and images, which are saved into a folder and never printed', async () => {
    const media = await target();
    const out = join(await folder(), 'saved');
    const call = ['call', media, 'draw', '{"what":"x"}', ...options];
    const shown = await valise(call);
    expect(shown.stdout).toContain('Here it is.\n[image/png, 8 B; save it with --out]\n');
    expect(shown.stdout).not.toContain(PNG.toString('base64'));
    expect(shown.stderr).toContain('valise: 1/2 step 1\nvalise: 2/2 step 2\n');
    for (let run = 0; run < 2; run++) expect((await valise([...call, '--out', out])).code).toBe(0);
    // The server chooses no place outside of the folder, and nothing is overwritten.
    expect((await readdir(out)).sort()).toEqual(
      ['2f.bashrc', '2f-2.bashrc', 'image-2.png', 'image.png'].sort(),
    );
    expect(await readFile(join(out, 'image.png'))).toEqual(PNG);
  });
});
