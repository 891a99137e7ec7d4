import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import ts from 'typescript';
import { root } from '../house/sources.ts';
import type { Block } from './blocks.ts';

// Inside the repository, so that `mcp-valise/…` is the package itself, as built, and its peers are found.
const STAGE = `${root}.cache/docs`;

// As most readers compile. Not with exactOptionalPropertyTypes, which the SDK's own handlers for Node do not fit.
const OPTIONS: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  moduleDetection: ts.ModuleDetectionKind.Force,
  strict: true,
  noUncheckedIndexedAccess: true,
  rewriteRelativeImportExtensions: true,
  skipLibCheck: true,
  noEmit: true,
  types: ['node'],
};

/** The folder that a page's blocks are written to and run in. */
export function folderOf(page: string): string {
  return join(STAGE, page.replace(/\.md$/, '').replaceAll('/', '-'));
}

/** Writes the blocks of pages as files, TypeScript also as the JavaScript that Node runs. */
export function stage(blocks: readonly Block[]): void {
  for (const page of new Set(blocks.map((block) => block.page)))
    rmSync(folderOf(page), { recursive: true, force: true });
  for (const { page, language, file, code } of blocks) {
    const path = join(folderOf(page), file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, code);
    if (language === 'ts') writeFileSync(path.replace(/\.ts$/, '.js'), transpile(code));
  }
}

function transpile(code: string): string {
  return ts.transpileModule(code, {
    compilerOptions: {
      ...OPTIONS,
      module: ts.ModuleKind.ESNext,
      moduleResolution: ts.ModuleResolutionKind.Bundler,
      noEmit: false,
    },
  }).outputText;
}

/** Type errors of staged blocks, by block, with the line of the page. */
export function typeErrors(blocks: readonly Block[]): Map<Block, string[]> {
  const files = new Map(
    blocks.filter(isTypeScript).map((block) => [join(folderOf(block.page), block.file), block]),
  );
  const program = ts.createProgram([...files.keys()], OPTIONS);
  const errors = new Map<Block, string[]>();
  for (const diagnostic of ts.getPreEmitDiagnostics(program)) {
    const block = diagnostic.file && files.get(diagnostic.file.fileName);
    const text = ts.flattenDiagnosticMessageText(diagnostic.messageText, '\n');
    if (!block) {
      throw new Error(`${relative(root, diagnostic.file?.fileName ?? '')}: ${text}`);
    }
    const line = diagnostic.file?.getLineAndCharacterOfPosition(diagnostic.start ?? 0).line ?? 0;
    errors.set(block, [...(errors.get(block) ?? []), `${block.page}:${block.line + line}: ${text}`]);
  }
  return errors;
}

function isTypeScript({ language }: Block): boolean {
  return language === 'ts';
}
