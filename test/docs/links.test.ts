import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { root } from '../house/sources.ts';
import { anchorsOf, linksOf } from './links.ts';

const pagesIn = (folder: string) =>
  readdirSync(`${root}${folder}`, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md'))
    .map((path) => `${folder}/${path}`);
const docs = pagesIn('docs');
const pages = [
  'README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'examples/README.md',
  ...docs,
  ...pagesIn('spec'),
];

/** Pages that explain; the others list. */
const guides = docs.filter((page) => !/(?:README|glossary|errors|decisions|architecture)\.md$/.test(page));

describe('links', () => {
  it.each(pages)('Links in %s lead to files and headings that exist', (page) => {
    const broken = linksOf(page).filter(
      ({ path, anchor }) =>
        !existsSync(root + path) ||
        (anchor !== '' && path.endsWith('.md') && !anchorsOf(path).includes(anchor)),
    );
    expect(broken).toEqual([]);
  });

  it('Links in the index of the documentation lead to every page', () => {
    const listed = linksOf('docs/README.md').map(({ path }) => path);
    expect(docs.filter((page) => page !== 'docs/README.md' && !listed.includes(page))).toEqual([]);
  });

  it.each(guides)('Links in %s lead to the glossary, at a word that it uses', (page) => {
    expect(linksOf(page).map(({ path }) => path)).toContain('docs/glossary.md');
  });

  it.each(pages)('Source files that %s names in its text exist', (page) => {
    const text = readFileSync(root + page, 'utf8').replace(/^( *)(`{3,})[\s\S]*?^\1\2$/gm, '');
    const named = [
      ...text.matchAll(
        /`((?:src|cli|test|scripts|spec|site|bench|compat|examples)\/[\w./-]+\.(?:tsx?|mjs|json|md))`/g,
      ),
    ];
    expect(named.map(([, path = '']) => path).filter((path) => !existsSync(root + path))).toEqual([]);
  });
});
