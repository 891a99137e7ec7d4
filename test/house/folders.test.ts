import { describe, expect, it } from 'vitest';
import { manifest, subpaths } from './manifest.ts';
import { brokenImports, FOLDERS, hasDefaultExport, importsOutsideTry, isBarrel, placeOf } from './rules.ts';
import { allSources, type Source } from './sources.ts';

const sources = allSources();
const peers = Object.keys(manifest.peerDependencies);
const publicFiles = subpaths.map(({ source }) => source);
/** Public files, and the one barrel for other folders: of the wire, only names and vectors are public. */
const barrelsAllowed = [...publicFiles, 'wire/index.ts'];

describe('the folders of src/', () => {
  it('Folders of src/ import only from folders to their left', () => {
    expect(sources.length).toBeGreaterThan(0);
    expect(sources.flatMap((source) => brokenImports(source, peers))).toEqual([]);
  });

  it('The sources have no default exports', () => {
    expect(sources.filter(hasDefaultExport).map(({ path }) => path)).toEqual([]);
  });

  it('Only a public subpath re-exports what other files export', () => {
    const barrels = sources.filter((source) => isBarrel(source) && !barrelsAllowed.includes(source.path));
    expect(barrels.map(({ path }) => path)).toEqual([]);
  });

  it('Only public subpaths have an index.ts', () => {
    const indexes = sources.map(({ path }) => path).filter((path) => /(^|\/)index\.ts$/.test(path));
    expect(indexes.filter((path) => !barrelsAllowed.includes(path))).toEqual([]);
  });

  it('The sources load optional packages inside `try`, because bundlers report a missing one anywhere else', () => {
    const bundled = sources.filter(({ path }) => !/^(cli|client)\//.test(path));
    expect(bundled.flatMap((source) => importsOutsideTry(source, peers))).toEqual([]);
  });

  it('Source files have at most 450 lines', () => {
    const long = sources.filter(({ text }) => text.split('\n').length > 451);
    expect(long.map(({ path }) => path)).toEqual([]);
  });
});

describe('the check of the folders', () => {
  const file = (path: string, text: string): Source => ({ path, text });
  const problems = (path: string, text: string) => brokenImports(file(path, text), ['ioredis', 'zod']);

  it.each([
    ['an import', "import { x } from '../server/x.ts';"],
    ['an import of a type', "import type { X } from '../server/x.ts';"],
    ['an export', "export * from '../server/x.ts';"],
    ['an import in the middle', "async function f() { await import('../server/x.ts'); }"],
    ['a type in the middle', "let x: import('../server/x.ts').X;"],
    ['a bare import', "import '../server/x.ts';"],
    ['a detour', "import { x } from '../edge/../server/x.ts';"],
  ])('The folder check reports an import from the right by %s', (_, text) => {
    expect(problems('store/a.ts', text)).toHaveLength(1);
  });

  it.each(FOLDERS.slice(1).map((folder, index) => [FOLDERS[index], folder] as const))(
    'The folder check does not let %s import %s',
    (left, right) => {
      expect(problems(`${left}/a.ts`, `import { x } from '../${right}/x.ts';`)).toHaveLength(1);
    },
  );

  it('The folder check lets every folder import from its left, and keeps client and server apart', () => {
    for (const [index, folder] of FOLDERS.entries()) {
      for (const left of FOLDERS.slice(0, index)) {
        const broken = problems(`${folder}/a.ts`, `import { x } from '../${left}/x.ts';`);
        expect(broken, `${folder} from ${left}`).toHaveLength(
          folder === 'server' && left === 'client' ? 1 : 0,
        );
      }
    }
  });

  it('The folder check reports a file in no folder, one that leaves src, and a self-import of the package by name', () => {
    expect(placeOf('attic/a.ts')).toBe('elsewhere');
    expect(problems('attic/a.ts', '')).toHaveLength(1);
    expect(problems('store/a.ts', "import { x } from '../../test/x/y.ts';")).toHaveLength(1);
    expect(problems('store/a.ts', "import { x } from 'mcp-valise/server';")).toHaveLength(1);
  });

  it('The folder check lets only the command line read the version and start the examples', () => {
    for (const file of ['package.json', '../examples/shop.ts'])
      expect(problems('cli/commands/a.ts', `import x from '../../${file}';`)).toEqual([]);
    for (const file of ['package.json', 'examples/shop.ts'])
      expect(problems('server/a.ts', `import x from '../../${file}';`)).toHaveLength(1);
    expect(problems('cli/a.ts', "import x from '../../test/house/rules.ts';")).toHaveLength(1);
  });

  it('The folder check lets the command line import the library only by its subpaths, and the library nothing of it', () => {
    expect(problems('cli/a.ts', "import { openValise } from 'mcp-valise/client';")).toEqual([]);
    expect(problems('cli/a.ts', "import { x } from '../client/index.ts';")).toHaveLength(1);
    expect(problems('cli/a.ts', "import { x } from '../errors.ts';")).toHaveLength(1);
    expect(problems('server/a.ts', "import { x } from '../cli/exit.ts';")).toHaveLength(1);
  });

  it('The folder check keeps wire pure and limits seal to cryptography', () => {
    expect(problems('wire/a.ts', "import { readFileSync } from 'node:fs';")).toHaveLength(1);
    expect(problems('seal/a.ts', "import { request } from 'node:http';")).toHaveLength(1);
    expect(problems('seal/a.ts', "import { createCipheriv } from 'node:crypto';")).toEqual([]);
  });

  it('The folder check reports a statically imported optional peer', () => {
    expect(problems('store/a.ts', "import { Redis } from 'ioredis';")).toHaveLength(1);
    expect(problems('store/a.ts', "import { x } from 'zod/v4';")).toHaveLength(1);
    expect(problems('store/a.ts', "import type { Redis } from 'ioredis';")).toEqual([]);
    expect(problems('store/a.ts', "const load = () => import('ioredis');")).toEqual([]);
  });

  it('The folder check recognizes a default export and a barrel', () => {
    for (const text of [
      'export default 1;',
      'export default function f() {}',
      'export { x as default };',
      "export { default } from './x.ts';",
    ]) {
      expect(hasDefaultExport(file('a.ts', text)), text).toBe(true);
    }
    expect(hasDefaultExport(file('a.ts', 'export const x = 1;'))).toBe(false);
    expect(isBarrel(file('a.ts', "export * from './x.ts';\nexport { y } from './y.ts';"))).toBe(true);
    expect(isBarrel(file('a.ts', "export * from './x.ts';\nexport const y = 1;"))).toBe(false);
  });
});
