import { cpSync, rmSync } from 'node:fs';
import { examples, work } from './places.ts';

/** Copies the examples to where they find the packages of this folder. */
export function setup(): void {
  rmSync(work, { recursive: true, force: true });
  cpSync(examples, `${work}examples`, { recursive: true });
}
