import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { defineConfig } from 'tsdown';

interface Manifest {
  exports: Record<string, string | { default: string }>;
}

/** `dist/store/sqlite.js` comes from `src/store/sqlite.ts`: package.json alone says what is public. */
function publicEntries(): string[] {
  const { exports } = JSON.parse(readFileSync('package.json', 'utf8')) as Manifest;
  return Object.values(exports).flatMap((target) =>
    typeof target === 'string' ? [] : [target.default.replace(/^\.\/dist\/(.*)\.js$/, '$1')],
  );
}

// A room that is not there yet is left out here and reported by the test of the exports.
const rooms = [...publicEntries(), 'store/contract-worker', 'cli/main']
  .map((name) => [name, `src/${name}.ts`] as const)
  .filter(([, file]) => existsSync(file));

const examples = (existsSync('examples') ? readdirSync('examples') : [])
  .filter((file) => file.endsWith('.ts'))
  .map((file) => [`examples/${basename(file, '.ts')}`, `examples/${file}`] as const);

/** The bundler names a source map in each `.d.ts`, also where none is written. */
function forgetTypeMap({ outDir, fileName }: { outDir: string; fileName: string }): void {
  if (!fileName.endsWith('.d.ts')) return;
  const file = join(outDir, fileName);
  writeFileSync(file, readFileSync(file, 'utf8').replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n'));
}

/** One file per subpath export, plus what the launcher in `bin/` runs and the examples it starts. */
export default defineConfig({
  entry: Object.fromEntries([...rooms, ...examples]),
  outDir: 'dist',
  format: 'esm',
  target: 'node20',
  platform: 'node',
  // `.js` and `.d.ts`, as the exports say; the package is ESM throughout.
  fixedExtension: false,
  // A map for stack traces; none for the types, since the sources are not in the package.
  dts: { resolver: 'tsc', sourcemap: false },
  sourcemap: true,
  // The examples import the package by its own name, as their readers will; what is in node_modules stays there.
  deps: { neverBundle: [/^mcp-valise(\/|$)/], skipNodeModulesBundle: true },
  report: { gzip: false },
  checks: { pluginTimings: false },
  hooks: { 'build:done': ({ chunks }) => chunks.forEach(forgetTypeMap) },
});
