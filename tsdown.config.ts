import { copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { defineConfig, type UserConfig } from 'tsdown';

interface Manifest {
  exports: Record<string, string | { default: string }>;
}

/** `dist/store/sqlite/store.js` comes from `src/store/sqlite/store.ts`: package.json alone says what is public. */
function publicEntries(): string[] {
  const { exports } = JSON.parse(readFileSync('package.json', 'utf8')) as Manifest;
  return Object.values(exports).flatMap((target) =>
    typeof target === 'string' ? [] : [target.default.replace(/^\.\/dist\/(.*)\.js$/, '$1')],
  );
}

// A room that is not there yet is left out here and reported by the test of the exports.
const rooms = [...publicEntries(), 'testing/contract-worker']
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

/** The files of the page that need no building. */
const PAGE = ['index.html', 'app.css', 'icon.svg'];

function copyPage(): void {
  for (const file of PAGE) copyFileSync(`console/${file}`, `cli/${dist}/console/${file}`);
}

/** A build goes beside `dist` first (scripts/prepare.mjs), so that whoever runs from there finds every file. */
const dist = process.env['VALISE_DIST'] ?? 'dist';

const both: UserConfig = {
  format: 'esm',
  target: 'node20',
  platform: 'node',
  // `.js` and `.d.ts`, as the exports say; the package is ESM throughout.
  fixedExtension: false,
  sourcemap: true,
  // The examples and the command line import the library by its name, as their readers will; what is in node_modules stays there.
  deps: { neverBundle: [/^mcp-valise(\/|$)/], skipNodeModulesBundle: true },
  report: { gzip: false },
  checks: { pluginTimings: false },
};

export default defineConfig([
  // The library: one file per subpath export.
  {
    ...both,
    entry: Object.fromEntries(rooms),
    outDir: dist,
    // A map for stack traces; none for the types, since the sources are not in the package.
    dts: { resolver: 'tsc', sourcemap: false },
    hooks: { 'build:done': ({ chunks }) => chunks.forEach(forgetTypeMap) },
  },
  // The command line: what its launcher runs, and the examples it starts.
  {
    ...both,
    entry: Object.fromEntries([['main', 'cli/src/main.ts'], ...examples]),
    outDir: `cli/${dist}`,
    dts: false,
    // The page below is in the same folder.
    clean: false,
  },
  // The page of `valise console`: one script, one style sheet, nothing from elsewhere.
  {
    entry: { 'console/app': 'console/src/main.tsx' },
    outDir: `cli/${dist}`,
    format: 'esm',
    target: 'es2022',
    platform: 'browser',
    fixedExtension: false,
    minify: true,
    dts: false,
    clean: false,
    deps: { alwaysBundle: [/./] },
    report: { gzip: false },
    checks: { pluginTimings: false },
    hooks: { 'build:done': copyPage },
  },
]);
