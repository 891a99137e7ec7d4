import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, it } from 'vitest';
import { root } from '../house/sources.ts';

const docs = readdirSync(`${root}docs`, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.md'))
  .map((path) => `docs/${path}`);
const pages = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'examples/README.md', ...docs];

/** The page without its code, where brackets mean something else. */
function prose(page: string): string {
  return readFileSync(root + page, 'utf8')
    .replace(/^( *)(`{3,})[\s\S]*?^\1\2$/gm, '')
    .replace(/`[^`\n]*`/g, '');
}

function links(page: string): { readonly path: string; readonly anchor: string }[] {
  return [...prose(page).matchAll(/\]\((?!https?:)([^)\s]*)\)/g)].map(([, target = '']) => {
    const [path = '', anchor = ''] = target.split('#');
    return { path: path === '' ? page : normalize(join(dirname(page), path)), anchor };
  });
}

/** Anchors as forges make them of headings. */
function anchors(page: string): string[] {
  const text = readFileSync(root + page, 'utf8').replace(/^( *)(`{3,})[\s\S]*?^\1\2$/gm, '');
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

describe.each(pages)('links in %s', (page) => {
  it('lead to files, and to headings in them, that exist', () => {
    const broken = links(page).filter(
      ({ path, anchor }) =>
        !existsSync(root + path) ||
        (anchor !== '' && path.endsWith('.md') && !anchors(path).includes(anchor)),
    );
    expect(broken).toEqual([]);
  });
});

describe('the index of the documentation', () => {
  it('leads to every page', () => {
    const listed = links('docs/README.md').map(({ path }) => path);
    expect(docs.filter((page) => page !== 'docs/README.md' && !listed.includes(page))).toEqual([]);
  });
});
