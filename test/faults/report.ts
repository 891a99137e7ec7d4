import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { root } from '../house/sources.ts';
import type { Counts } from './load.ts';

/** A line of the table. */
export interface Row extends Omit<Counts, 'errors'> {
  readonly engine: string;
  readonly fault: string;
  /** Whether the engine promises, in this case, to keep what it has acknowledged. */
  readonly promised: boolean;
}

const rows: Row[] = [];
const versions: Record<string, string> = { Node: process.versions.node };

export function addRow(row: Row): void {
  rows.push(row);
}

export function addVersion(name: string, version: string): void {
  versions[name] = version;
}

/** Leaves what was measured for scripts/fault-table.mjs, which puts it into docs/reliability.md. */
export function writeReport(): void {
  mkdirSync(`${root}.cache`, { recursive: true });
  const report = { on: new Date().toISOString().slice(0, 10), cores: cpus().length, versions, rows };
  writeFileSync(`${root}.cache/faults.json`, `${JSON.stringify(report, null, 2)}\n`);
}
