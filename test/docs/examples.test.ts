import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { generateKey } from 'mcp-valise/seal';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { build } from '../../scripts/prepare.mjs';
import { folder, serveExample, valise } from '../cli/valise.ts';
import { root } from '../house/sources.ts';
import { noServices, service, startNginx } from '../services.ts';
import { readBlocks } from './blocks.ts';

const page = readFileSync(`${root}examples/README.md`, 'utf8');

/** What the page's block starts: the words after `valise example`, without the port, one entry per instance. */
const instances = (
  readBlocks('examples/README.md', page).find(({ file }) => file === 'instances.sh')?.code ?? ''
)
  .split('\n')
  .filter((line) => line.startsWith('valise example '))
  .map((line) => line.replace(/^valise example /, '').replace(/ --http \d+| &$/g, ''));

const bug = '{"workItemId":7,"fields":{"System.State":"Resolved"}}';

const CASES: readonly {
  readonly name: string;
  readonly calls: readonly string[][];
  readonly says: string[];
}[] = [
  {
    name: 'shop',
    calls: [
      ['add_item', '{"item":"tea","price":3}'],
      ['add_item', '{"item":"milk","price":1}'],
      ['view_cart'],
    ],
    says: ['Cart: tea; total 3', 'Cart: tea, milk; total 4', 'Cart: tea, milk; total 4'],
  },
  {
    name: 'notebook --mode stored',
    calls: ['a', 'b', 'c'].map((text) => ['notebook_append', JSON.stringify({ text }), '--session', 'diary']),
    says: ['Note 1 taken.', 'Note 2 taken.', 'Note 3 taken.'],
  },
  {
    name: 'work-items',
    calls: [['update_work_item', bug, '--answer', 'resolution=Fixed']],
    says: ['Bug #7 resolved as Fixed. State set to Resolved.'],
  },
  { name: 'vault', calls: [['increment'], ['increment'], ['increment']], says: ['1', '2', '3'] },
];

beforeAll(build, 120_000);

describe.skipIf(noServices)('the examples on Redis, in two instances behind nginx', () => {
  it('The examples page shows two instances and names every tested example', () => {
    expect(instances).toHaveLength(2);
    for (const { name } of CASES) expect(page).toContain(`\`${name}\``);
  });

  it.each(CASES)('The example $name runs on two instances behind nginx', async ({ name, calls, says }) => {
    const redis = (await service('redis')) ?? '';
    const env = { VALISE_KEYS: generateKey() };
    const served = await Promise.all(
      instances.map((line) =>
        serveExample(line.replace('shop', name).replace('$store', redis).split(' '), env),
      ),
    );
    const nginx = await startNginx({ upstreams: served.map(({ url }) => url) });
    onTestFinished(() => nginx.stop());
    const store = ['--allow-local', '--store', `sqlite:${join(await folder(), 'state.db')}`];
    const said: string[] = [];
    for (const [tool = '', ...rest] of calls) {
      const { stdout, stderr } = await valise(['call', `${nginx.url}/mcp`, tool, ...rest, ...store]);
      said.push(stdout.trim() || stderr);
    }
    expect(said).toEqual(says);
  });
});
