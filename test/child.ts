import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const FOLDER = join(ROOT, '.cache/children');
const bundled = new Map<string, string>();

/**
 * Bundles a TypeScript file, with the sources of Valise, so that Node can run it as a child process. Returns the path of the
 * bundle. Each test file bundles a child once; with tsx, every process would compile all sources anew.
 */
export function child(file: string | URL): string {
  const path = typeof file === 'string' ? file : fileURLToPath(file);
  const known = bundled.get(path);
  if (known !== undefined) return known;
  const { outputFiles } = buildSync({
    entryPoints: [path],
    absWorkingDir: ROOT,
    bundle: true,
    packages: 'external',
    format: 'esm',
    platform: 'node',
    target: 'node20',
    write: false,
    logLevel: 'error',
  });
  const name = `${relative(ROOT, path).replaceAll('/', '-').replace(basename(path), basename(path, '.ts'))}.mjs`;
  const bundle = join(FOLDER, name);
  // Another worker may bundle or run the same file.
  const draft = `${bundle}.${process.pid}`;
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(draft, outputFiles[0]?.contents ?? '');
  renameSync(draft, bundle);
  bundled.set(path, bundle);
  return bundle;
}
