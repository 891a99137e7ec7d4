import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { root } from '../house/sources.ts';

/** A link of a page to another one, or to a file. */
export interface Link {
  readonly path: string;
  readonly anchor: string;
  /** The line that the link is on. */
  readonly line: string;
}

/** Returns the links of a page, without those in code and those to other sites. */
export function linksOf(page: string): Link[] {
  const links: Link[] = [];
  for (const line of withoutCode(page).split('\n'))
    for (const [, target = ''] of line.replace(/`[^`\n]*`/g, '').matchAll(/\]\((?!https?:)([^)\s]*)\)/g)) {
      const [path = '', anchor = ''] = target.split('#');
      links.push({ path: path === '' ? page : normalize(join(dirname(page), path)), anchor, line });
    }
  return links;
}

/** Returns the anchors of a page's headings, as GitHub makes them. */
export function anchorsOf(page: string): string[] {
  return [...withoutCode(page).matchAll(/^#+ .+$/gm)].map(([heading]) => anchorOf(heading));
}

/** Returns the anchor of a heading. */
export function anchorOf(heading: string): string {
  return heading
    .replace(/^#+ /, '')
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}

function withoutCode(page: string): string {
  return readFileSync(root + page, 'utf8').replace(/^( *)(`{3,})[\s\S]*?^\1\2$/gm, '');
}
