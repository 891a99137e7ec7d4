import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { creations, eraLines, importCycles, moduleLevelCreations, wordsOf } from './measures.ts';
import { allSources, root, type Source } from './sources.ts';

/**
 * Ceilings that only go down. A change that gets below one lowers it here; none may raise one.
 * The goals are those of the design: 110 in 22, 180 in 34, 180 in 36, 220 in 42; no eras outside of the wire, one async
 * context, no import cycle, no retired word.
 */
const HOPS = {
  plain: { functions: 222, files: 62 },
  jar: { functions: 338, files: 78 },
  session: { functions: 406, files: 88 },
  flow: { functions: 501, files: 99 },
};
const ASYNC_CONTEXTS = 7;
const MODULE_LEVEL_REGISTRIES = 17;
const ERA_LINES = 131;
const IMPORT_CYCLES = 3;

/** Private metaphors, and how many files still use each. A word that reaches 0 stays listed, so that it does not return. */
const RETIRED_WORDS: Readonly<Record<string, number>> = {
  asker: 0,
  bag: 0,
  bury: 0,
  departures: 0,
  desk: 0,
  dig: 0,
  drawer: 0,
  ear: 0,
  errand: 0,
  graves: 0,
  ingress: 0,
  passage: 0,
  rescue: 0,
  seat: 0,
  shelf: 0,
  switchboard: 0,
  trouble: 1,
  wallet: 1,
  wishes: 0,
};

const sources = allSources();
const outsideWire = sources.filter(({ path }) => !/^wire\/|\/carriers\//.test(path));
const total = (measure: (source: Source) => number, of = sources) =>
  of.reduce((sum, source) => sum + measure(source), 0);

describe('warm calls', () => {
  const hops: typeof HOPS = JSON.parse(
    execFileSync(process.execPath, ['--import', 'tsx', 'test/house/hops.ts'], {
      cwd: root,
      encoding: 'utf8',
    }),
  );

  it.each(Object.entries(HOPS))(
    'A warm call of kind "%s" runs no more functions in no more files than its budget allows',
    (kind, budget) => {
      const { functions, files } = hops[kind as keyof typeof HOPS];
      const hint = '`node --import tsx test/house/hops.ts --list` names them';
      expect(functions, hint).toBeLessThanOrEqual(budget.functions);
      expect(files, hint).toBeLessThanOrEqual(budget.files);
    },
  );
});

describe('the sources', () => {
  it('The sources mention protocol eras outside wire/ and the carriers no more often than the ceiling', () => {
    expect(total((source) => eraLines(source).length, outsideWire)).toBeLessThanOrEqual(ERA_LINES);
  });

  it('The sources have no more async contexts than the ceiling', () => {
    expect(total((source) => creations(source, ['AsyncLocalStorage', 'AsyncVariable']))).toBeLessThanOrEqual(
      ASYNC_CONTEXTS,
    );
  });

  it('The sources have no more module-level registries than the ceiling', () => {
    const registries = total((source) => moduleLevelCreations(source, ['WeakMap', 'WeakSet', 'Slot']));
    expect(registries).toBeLessThanOrEqual(MODULE_LEVEL_REGISTRIES);
  });

  it('The sources have no more import cycles than the ceiling', () => {
    expect(importCycles(sources).length).toBeLessThanOrEqual(IMPORT_CYCLES);
  });

  it.each(Object.entries(RETIRED_WORDS))(
    'The sources use the retired word "%s" in no more files than the ceiling',
    (word, ceiling) => {
      const using = sources.filter((source) => wordsOf(source).has(word)).map(({ path }) => path);
      expect(using.length, using.join(', ')).toBeLessThanOrEqual(ceiling);
    },
  );
});

describe('the measures behind the ceilings', () => {
  const file = (path: string, text: string): Source => ({ path, text });

  it('The cycle measure finds a cycle of three files and no cycle in a chain', () => {
    const link = (from: string, to: string) => file(`${from}.ts`, `import type { X } from './${to}.ts';`);
    expect(importCycles([link('a', 'b'), link('b', 'c'), link('c', 'a'), link('d', 'a')])).toEqual([
      ['a.ts', 'b.ts', 'c.ts'],
    ]);
    expect(importCycles([link('a', 'b'), link('b', 'c'), file('c.ts', '')])).toEqual([]);
  });

  it('The era measure counts eras in code and not in comments', () => {
    const text =
      "// on 2026-07-28\nif (era === 'legacy') run(); /* modern */\nconst x = isServedModern(y);\n";
    expect(eraLines(file('a.ts', text))).toHaveLength(2);
  });

  it('The registry measure counts module-level registries and async contexts apart from those inside functions', () => {
    const text =
      'const a = new WeakMap(); function f() { return new WeakMap(); } const b = new AsyncLocalStorage<X>();';
    expect(moduleLevelCreations(file('a.ts', text), ['WeakMap'])).toBe(1);
    expect(creations(file('a.ts', text), ['WeakMap', 'AsyncLocalStorage'])).toBe(3);
  });

  it('The word measure splits names into words', () => {
    expect([...wordsOf(file('a.ts', 'class SessionShelf { readonly HTTPDesk = 1; }'))]).toEqual(
      expect.arrayContaining(['session', 'shelf', 'desk']),
    );
  });
});
