import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** A file of the page. */
export interface Asset {
  readonly type: string;
  readonly content: Buffer;
}

/** The files of the page, by path. Nothing else is served. */
const ASSETS: Readonly<Record<string, readonly [file: string, type: string]>> = {
  '/': ['index.html', 'text/html; charset=utf-8'],
  '/app.js': ['app.js', 'text/javascript; charset=utf-8'],
  '/app.css': ['app.css', 'text/css; charset=utf-8'],
  '/icon.svg': ['icon.svg', 'image/svg+xml'],
};

/** Returns a file of the page, or undefined if there is none under this path. */
export async function assetOf(path: string): Promise<Asset | undefined> {
  const found = Object.hasOwn(ASSETS, path) ? ASSETS[path] : undefined;
  if (!found) return undefined;
  const [file, type] = found;
  return { type, content: await readFile(join(pageFolder(), file)) };
}

/** The folder with the built page, in a checkout and in an installed package. */
function pageFolder(): string {
  const manifest = createRequire(import.meta.url).resolve('mcp-valise-cli/package.json');
  return join(dirname(manifest), 'dist', 'console');
}
