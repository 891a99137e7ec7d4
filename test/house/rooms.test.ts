import { describe, expect, it } from 'vitest';
import { manifest, subpaths } from './manifest.ts';
import { brokenImports, hasDefaultExport, importsOutsideTry, isBarrel, placeOf, ROOMS } from './rules.ts';
import { allSources, type Source } from './sources.ts';

const sources = allSources();
const peers = Object.keys(manifest.peerDependencies);
const publicFiles = subpaths.map(({ source }) => source);
/** Public files, and the one barrel for other rooms: of the wire, only names and vectors are public. */
const barrelsAllowed = [...publicFiles, 'wire/index.ts'];

describe('the rooms of src/', () => {
  it('import only from rooms to their left and from the floor', () => {
    expect(sources.length).toBeGreaterThan(0);
    expect(sources.flatMap((source) => brokenImports(source, peers))).toEqual([]);
  });

  it('have no default exports', () => {
    expect(sources.filter(hasDefaultExport).map(({ path }) => path)).toEqual([]);
  });

  it('have no barrels inside: only a public subpath may hand on what other files export', () => {
    const barrels = sources.filter((source) => isBarrel(source) && !barrelsAllowed.includes(source.path));
    expect(barrels.map(({ path }) => path)).toEqual([]);
  });

  it('have an index.ts only where it is a public subpath', () => {
    const indexes = sources.map(({ path }) => path).filter((path) => /(^|\/)index\.ts$/.test(path));
    expect(indexes.filter((path) => !barrelsAllowed.includes(path))).toEqual([]);
  });

  it('load optional packages inside of `try`: anywhere else, bundlers take one that is not installed for an error', () => {
    const bundled = sources.filter(({ path }) => !/^(cli|client)\//.test(path));
    expect(bundled.flatMap((source) => importsOutsideTry(source, peers))).toEqual([]);
  });

  it('keep their files at 450 lines at most', () => {
    const long = sources.filter(({ text }) => text.split('\n').length > 451);
    expect(long.map(({ path }) => path)).toEqual([]);
  });
});

describe('the check of the rooms', () => {
  const file = (path: string, text: string): Source => ({ path, text });
  const problems = (path: string, text: string) => brokenImports(file(path, text), ['ioredis', 'zod']);

  it.each([
    ['an import', "import { x } from '../server/x.ts';"],
    ['an import of a type', "import type { X } from '../server/x.ts';"],
    ['an export', "export * from '../server/x.ts';"],
    ['an import in the middle', "async function f() { await import('../server/x.ts'); }"],
    ['a type in the middle', "let x: import('../server/x.ts').X;"],
    ['a bare import', "import '../server/x.ts';"],
    ['a way round', "import { x } from '../link/../server/x.ts';"],
  ])('catches a room on the right reached by %s', (_, text) => {
    expect(problems('store/a.ts', text)).toHaveLength(1);
  });

  it.each(ROOMS.slice(1).map((room, index) => [ROOMS[index], room] as const))(
    'lets %s not see %s',
    (left, right) => {
      expect(problems(`${left}/a.ts`, `import { x } from '../${right}/x.ts';`)).toHaveLength(1);
    },
  );

  it('lets every room see what is to its left, client and server apart', () => {
    for (const [index, room] of ROOMS.entries()) {
      for (const left of ROOMS.slice(0, index)) {
        const broken = problems(`${room}/a.ts`, `import { x } from '../${left}/x.ts';`);
        expect(broken, `${room} from ${left}`).toHaveLength(room === 'server' && left === 'client' ? 1 : 0);
      }
    }
  });

  it('lets every room stand on the floor, and the floor on nothing', () => {
    for (const room of ROOMS) {
      expect(problems(`${room}/a.ts`, "import { ValiseError } from '../errors.ts';")).toEqual([]);
      expect(problems('errors.ts', `import { x } from './${room}/x.ts';`)).toHaveLength(1);
    }
    expect(problems('json.ts', "import { x } from './errors.ts';")).toEqual([]);
  });

  it('catches a file in no room, one that leaves src, and the package importing itself by name', () => {
    expect(placeOf('attic/a.ts')).toBe('elsewhere');
    expect(problems('attic/a.ts', '')).toHaveLength(1);
    expect(problems('store/a.ts', "import { x } from '../../test/x/y.ts';")).toHaveLength(1);
    expect(problems('store/a.ts', "import { x } from 'mcp-valise/server';")).toHaveLength(1);
  });

  it('lets the command line alone tell the version and start the examples', () => {
    for (const file of ['package.json', '../examples/shop.ts'])
      expect(problems('cli/commands/a.ts', `import x from '../../${file}';`)).toEqual([]);
    for (const file of ['package.json', 'examples/shop.ts'])
      expect(problems('server/a.ts', `import x from '../../${file}';`)).toHaveLength(1);
    expect(problems('cli/a.ts', "import x from '../../test/house/rules.ts';")).toHaveLength(1);
  });

  it('lets the command line import the library by its subpaths alone, and the library nothing of it', () => {
    expect(problems('cli/a.ts', "import { openValise } from 'mcp-valise/client';")).toEqual([]);
    expect(problems('cli/a.ts', "import { x } from '../client/index.ts';")).toHaveLength(1);
    expect(problems('cli/a.ts', "import { x } from '../errors.ts';")).toHaveLength(1);
    expect(problems('server/a.ts', "import { x } from '../cli/exit.ts';")).toHaveLength(1);
  });

  it('keeps wire pure and seal to cryptography', () => {
    expect(problems('wire/a.ts', "import { readFileSync } from 'node:fs';")).toHaveLength(1);
    expect(problems('seal/a.ts', "import { request } from 'node:http';")).toHaveLength(1);
    expect(problems('seal/a.ts', "import { createCipheriv } from 'node:crypto';")).toEqual([]);
  });

  it('catches an optional peer that would be loaded at once', () => {
    expect(problems('store/a.ts', "import { Redis } from 'ioredis';")).toHaveLength(1);
    expect(problems('store/a.ts', "import { x } from 'zod/v4';")).toHaveLength(1);
    expect(problems('store/a.ts', "import type { Redis } from 'ioredis';")).toEqual([]);
    expect(problems('store/a.ts', "const load = () => import('ioredis');")).toEqual([]);
  });

  it('knows a default export and a barrel when it sees one', () => {
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
