import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readClaimed } from '../../scripts/ledger.mjs';
import { readBlocks } from '../docs/blocks.ts';
import { manifest } from './manifest.ts';
import { root } from './sources.ts';

const readme = readFileSync(`${root}README.md`, 'utf8');
const rows = readFileSync(`${root}docs/README.md`, 'utf8')
  .split('\n')
  .filter((line) => /^\| 00\d/.test(line))
  .map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );

describe('the index of the documentation', () => {
  it('The index has a row for each family and names each seed', () => {
    expect(rows.map(([, family = '']) => family[0])).toEqual(['J', 'R', 'S', 'C']);
    for (const seed of ['000', '001', '002', '003', '004']) expect(rows.flat().join(' ')).toContain(seed);
  });

  it('The index marks exactly those families as working that are claimed and proved', () => {
    const claimed = readClaimed(`${root}spec/claimed.json`);
    const today = rows.map(([, family = '', , state]) => [family[0], state]);
    expect(today).toEqual(
      today.map(([family]) => [family, claimed.includes(family ?? '') ? 'works' : 'not yet']),
    );
  });
});

describe('the README', () => {
  it('The README names the two commands, and both exist', () => {
    expect(readme).toContain('npm start');
    expect(readme).toContain('npm test');
    expect(manifest.scripts).toMatchObject({
      start: 'node scripts/start.mjs',
      test: 'node scripts/test.mjs',
    });
  });

  it('The README shows a server of about a dozen lines and a client of less than twenty', () => {
    const lines = (file: string) =>
      readBlocks('README.md', readme)
        .find((block) => block.file === file)
        ?.code.split('\n')
        .filter((line) => line.trim() !== '' && !line.startsWith('import')).length;
    expect(lines('server.ts')).toBeLessThanOrEqual(13);
    expect(lines('client.ts')).toBeLessThanOrEqual(20);
  });
});

describe.each(['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md', 'docs/decisions.md'])(
  'links in %s',
  (page) => {
    it('Links lead to files that exist', () => {
      const text = readFileSync(root + page, 'utf8');
      const targets = [...text.matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map(([, target = '']) => target);
      expect(targets.filter((target) => !existsSync(join(root, dirname(page), target)))).toEqual([]);
    });
  },
);

describe('docs/decisions.md', () => {
  it('docs/decisions.md gives a reason for every dependency', () => {
    const text = readFileSync(`${root}docs/decisions.md`, 'utf8');
    const names = [...Object.keys(manifest.dependencies), ...Object.keys(manifest.peerDependencies)];
    const short = (name: string) => name.replace('@modelcontextprotocol/', '');
    expect(names.filter((name) => !text.includes(short(name)))).toEqual([]);
  });
});
