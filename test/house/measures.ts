import { posix } from 'node:path';
import ts from 'typescript';
import { importsOf, parse, type Source } from './sources.ts';

/** Groups of files that import each other in a circle, each sorted; imports of types count too. */
export function importCycles(sources: readonly Source[]): string[][] {
  const edges = new Map(
    sources.map((source) => [
      source.path,
      importsOf(source)
        .filter(({ specifier }) => specifier.startsWith('.'))
        .map(({ specifier }) => posix.join(posix.dirname(source.path), specifier)),
    ]),
  );
  const reach = new Map([...edges.keys()].map((path) => [path, reachable(path, edges)]));
  const groups = new Map<string, string[]>();
  for (const [path, others] of reach) {
    if (!others.has(path)) continue;
    const group = [...others].filter((other) => reach.get(other)?.has(path)).sort();
    groups.set(group.join(), group);
  }
  return [...groups.values()];
}

function reachable(path: string, edges: ReadonlyMap<string, readonly string[]>): Set<string> {
  const found = new Set<string>();
  const open = [...(edges.get(path) ?? [])];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (found.has(next)) continue;
    found.add(next);
    open.push(...(edges.get(next) ?? []));
  }
  return found;
}

/** How often a file creates an object of one of these classes. */
export function creations(source: Source, classes: readonly string[]): number {
  let count = 0;
  const visit = (node: ts.Node): void => {
    if (ts.isNewExpression(node) && classes.includes(node.expression.getText())) count++;
    ts.forEachChild(node, visit);
  };
  visit(parse(source));
  return count;
}

/** How many variables of the module itself a file fills with an object of one of these classes. */
export function moduleLevelCreations(source: Source, classes: readonly string[]): number {
  return parse(source)
    .statements.filter(ts.isVariableStatement)
    .flatMap(({ declarationList }) => [...declarationList.declarations])
    .filter(
      ({ initializer }) =>
        initializer && ts.isNewExpression(initializer) && classes.includes(initializer.expression.getText()),
    ).length;
}

const ERA =
  /\bera\b|'(legacy|modern)'|\b20\d\d-\d\d-\d\d\b|\b(is|reads|serves)?(Legacy|Modern)\b|\bisServedModern\b/i;

/** The lines of code, without comments, that ask for or name a protocol era. */
export function eraLines(source: Source): string[] {
  return withoutComments(source).filter((line) => ERA.test(line));
}

/** The words that code uses in names, in lower case: `SessionShelf` has `session` and `shelf`. Comments count too. */
export function wordsOf({ text }: Source): Set<string> {
  const words = text.match(/[A-Z]?[a-z]+|[A-Z]+(?![a-z])/g) ?? [];
  return new Set(words.map((word) => word.toLowerCase()));
}

const printer = ts.createPrinter({ removeComments: true });

/** The lines of a file as the compiler prints it. A scanner alone takes comments behind template literals for code. */
function withoutComments(source: Source): string[] {
  return printer.printFile(parse(source)).split('\n');
}
