import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

/** The root of the repository, with a slash at the end. */
export const root = fileURLToPath(new URL('../../', import.meta.url));

/** A source file, by its path below `src/`; files of the command line, which are in `cli/src/`, as `cli/…`. */
export interface Source {
  readonly path: string;
  readonly text: string;
}

/** Something that a source file imports, in whichever way. */
export interface Import {
  readonly specifier: string;
  /** Loaded when the file is loaded: neither a type alone nor an `import()` in the middle. */
  readonly atLoad: boolean;
}

/** All files of the library and of the command line, in a stable order. */
export function allSources(): Source[] {
  return [...sourcesIn('src', ''), ...sourcesIn('cli/src', 'cli/')];
}

function sourcesIn(folder: string, prefix: string): Source[] {
  return readdirSync(`${root}${folder}`, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .sort()
    .map((path) => ({ path: prefix + path, text: readFileSync(`${root}${folder}/${path}`, 'utf8') }));
}

export function parse({ path, text }: Source): ts.SourceFile {
  return ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true, ts.ScriptKind.TS);
}

/** Every import, export-from, `import()` and `import('…')` type of a file. */
export function importsOf(source: Source): Import[] {
  const found: Import[] = [];
  const visit = (node: ts.Node): void => {
    const specifier = specifierOf(node);
    if (specifier && ts.isStringLiteralLike(specifier)) {
      found.push({ specifier: specifier.text, atLoad: isAtLoad(node) });
    }
    ts.forEachChild(node, visit);
  };
  visit(parse(source));
  return found;
}

function specifierOf(node: ts.Node): ts.Node | undefined {
  if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return node.moduleSpecifier;
  if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) return node.argument.literal;
  if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword)
    return node.arguments[0];
  return undefined;
}

function isAtLoad(node: ts.Node): boolean {
  if (ts.isExportDeclaration(node)) return !node.isTypeOnly;
  return ts.isImportDeclaration(node) && node.importClause?.phaseModifier !== ts.SyntaxKind.TypeKeyword;
}
