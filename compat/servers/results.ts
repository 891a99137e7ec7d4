import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { Column } from './frameworks.ts';
import { found } from './places.ts';

/** What a run has found out about a framework. */
export interface Result {
  readonly name: string;
  readonly versions: readonly string[];
  readonly cells: Partial<Record<Column, string>>;
}

/** Leaves a result for scripts/compat.mjs. */
export function keep(result: Result): void {
  mkdirSync(found, { recursive: true });
  writeFileSync(`${found}${result.name.replaceAll(/\W+/g, '-')}.json`, JSON.stringify(result));
}

/** The packages with their versions. */
export function versionsOf(packages: readonly string[]): string[] {
  return packages.map((name) => {
    const file = new URL(`node_modules/${name}/package.json`, import.meta.url);
    return `${name} ${(JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version}`;
  });
}
