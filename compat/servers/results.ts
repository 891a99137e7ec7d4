import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { COLUMNS, type Column } from './frameworks.ts';
import { found } from './places.ts';

/** What a run has found out about a framework. */
export interface Result {
  readonly name: string;
  readonly versions: readonly string[];
  readonly cells: Partial<Record<Column, string>>;
}

/** Leaves a result for scripts/compat.mjs. Its cells are in the order of the columns, whichever check has ended first. */
export function keep({ cells, ...result }: Result): void {
  const columns = (Object.keys(COLUMNS) as Column[]).filter((column) => cells[column] !== undefined);
  const ordered = Object.fromEntries(columns.map((column) => [column, cells[column]]));
  mkdirSync(found, { recursive: true });
  writeFileSync(
    `${found}${result.name.replaceAll(/\W+/g, '-')}.json`,
    JSON.stringify({ ...result, cells: ordered }),
  );
}

/** The packages with their versions. */
export function versionsOf(packages: readonly string[]): string[] {
  return packages.map((name) => {
    const file = new URL(`node_modules/${name}/package.json`, import.meta.url);
    return `${name} ${(JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version}`;
  });
}
