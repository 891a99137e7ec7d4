import { readFileSync } from 'node:fs';
import { root } from './sources.ts';

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly type: string;
  readonly sideEffects: boolean;
  readonly engines: { readonly node: string };
  readonly bin: Record<string, string>;
  readonly exports: Record<string, string | Record<string, string>>;
  readonly scripts: Record<string, string>;
  readonly dependencies: Record<string, string>;
  readonly devDependencies: Record<string, string>;
  readonly peerDependencies: Record<string, string>;
  readonly peerDependenciesMeta: Record<string, { readonly optional?: boolean }>;
}

/** package.json of the library. */
export const manifest = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as Manifest;

/** package.json of the command line. */
export const cliManifest = JSON.parse(readFileSync(`${root}cli/package.json`, 'utf8')) as Manifest;

/** A public subpath, e.g. `mcp-valise/store/sqlite`, and the file below `src/` that it is. */
export interface Subpath {
  readonly specifier: string;
  readonly source: string;
  readonly target: Record<string, string>;
}

/** All public subpaths but `package.json` itself. */
export const subpaths: readonly Subpath[] = Object.entries(manifest.exports).flatMap(([subpath, target]) => {
  if (typeof target === 'string') return [];
  const source = `${target['default']?.replace(/^\.\/dist\/(.*)\.js$/, '$1')}.ts`;
  return [{ specifier: `mcp-valise${subpath.slice(1)}`, source, target }];
});
