import { posix } from 'node:path';
import ts from 'typescript';
import { importsOf, parse, type Source } from './sources.ts';

/** The folders of `src/`, left to right: a folder imports only from folders to its left. */
export const FOLDERS = [
  'core',
  'wire',
  'seal',
  'store',
  'edge',
  'client',
  'server',
  'adapters',
  'otel',
  'testing',
  'internal',
] as const;

type Place = (typeof FOLDERS)[number] | 'cli' | 'elsewhere';

/** Neighbours that must not know each other, although one stands to the left of the other. */
const STRANGERS: readonly (readonly [Place, Place])[] = [['server', 'client']];

/** The command line tells its version and starts the examples. */
const CLI_EXTRAS = /^(package\.json|\.\.\/examples\/[\w-]+\.ts)$/;

/** What a folder may take from Node: `wire` is pure, `seal` is about cryptography alone. */
const BUILTINS: Partial<Record<Place, readonly string[]>> = {
  wire: [],
  seal: ['node:crypto', 'node:zlib', 'node:buffer', 'node:util'],
};

export function placeOf(path: string): Place {
  const [first = ''] = path.split('/');
  return [...FOLDERS, 'cli' as const].find((folder) => folder === first) ?? 'elsewhere';
}

/** What is wrong with a file's imports, a sentence each. */
export function brokenImports(source: Source, optionalPeers: readonly string[]): string[] {
  const from = placeOf(source.path);
  if (from === 'elsewhere') return [`${source.path} is in no folder`];
  return importsOf(source).flatMap(({ specifier, atLoad }) => {
    const say = (why: string) => [`${source.path} imports ${specifier}: ${why}`];
    if (specifier.startsWith('.')) {
      const target = posix.join(posix.dirname(source.path), specifier);
      if (from === 'cli' && CLI_EXTRAS.test(target)) return [];
      // The vectors are data, published with the names.
      if (source.path === 'wire/public.ts' && /^\.\.\/spec\/vectors\/\w+\.json$/.test(target)) return [];
      const to = placeOf(target);
      if (from === 'cli')
        return to === 'cli' ? [] : say('the command line imports the library by its subpaths');
      return mayImport(from, to) ? [] : say(`${from} may not use ${to}`);
    }
    if (from === 'cli') return [];
    if (specifier === 'mcp-valise' || specifier.startsWith('mcp-valise/'))
      return say('inside the package, import the file itself');
    if (specifier.startsWith('node:')) {
      const allowed = BUILTINS[from];
      return !allowed || allowed.includes(specifier) ? [] : say(`${from} does without it`);
    }
    const peer = optionalPeers.find((name) => specifier === name || specifier.startsWith(`${name}/`));
    if (from === 'otel' && peer === '@opentelemetry/api') return [];
    return peer && atLoad ? say('an optional peer is loaded where it is needed, with `import()`') : [];
  });
}

function mayImport(from: Place, to: Place): boolean {
  if (to === 'elsewhere' || to === 'cli') return false;
  if (from === to) return true;
  if (STRANGERS.some(([a, b]) => a === from && b === to)) return false;
  return FOLDERS.indexOf(to as never) < FOLDERS.indexOf(from as never);
}

/** The optional packages that a file loads outside of `try`. */
export function importsOutsideTry(source: Source, optionalPeers: readonly string[]): string[] {
  const found: string[] = [];
  const visit = (node: ts.Node, isTried: boolean): void => {
    if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      const [name] = node.arguments;
      if (!isTried && name && ts.isStringLiteral(name) && optionalPeers.includes(name.text))
        found.push(`${source.path} loads ${name.text} outside of try`);
    }
    const within = ts.isTryStatement(node) ? node.tryBlock : undefined;
    ts.forEachChild(node, (child) => visit(child, isTried || child === within));
  };
  visit(parse(source), false);
  return found;
}

export function hasDefaultExport(source: Source): boolean {
  return parse(source).statements.some((statement) => {
    if (ts.isExportAssignment(statement)) return true;
    if (
      ts.isExportDeclaration(statement) &&
      statement.exportClause &&
      ts.isNamedExports(statement.exportClause)
    ) {
      return statement.exportClause.elements.some(({ name }) => name.text === 'default');
    }
    const flags = ts.canHaveModifiers(statement) ? ts.getModifiers(statement) : undefined;
    return flags?.some(({ kind }) => kind === ts.SyntaxKind.DefaultKeyword) ?? false;
  });
}

/** A barrel only hands on what other files export. */
export function isBarrel(source: Source): boolean {
  const { statements } = parse(source);
  return (
    statements.length > 0 &&
    statements.every((statement) => ts.isExportDeclaration(statement) && statement.moduleSpecifier)
  );
}
