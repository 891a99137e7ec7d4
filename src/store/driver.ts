import { createRequire } from 'node:module';
import { ValiseError } from '../errors.ts';

/** Packages that stores on servers need, and what else can be given in their place. */
const NEEDED = {
  ioredis: ['A Redis store', 'a client'],
  pg: ['A PostgreSQL store', 'a pool'],
} as const;

/** The package that a store needs is not installed. */
export function driverMissing(name: keyof typeof NEEDED, cause?: unknown): ValiseError {
  const [store, other] = NEEDED[name];
  return new ValiseError('store-driver-missing', `${store} needs the package ${name}.`, {
    next: `Run \`npm install ${name}\`, or hand over ${other} of your own.`,
    cause,
  });
}

/** Throws if the package is not installed beside this one. In a bundle, where packages have no place, nothing is known. */
export function requireDriver(name: keyof typeof NEEDED): void {
  const { resolve } = createRequire(import.meta.url);
  try {
    resolve('mcp-valise/package.json');
  } catch {
    return;
  }
  try {
    resolve(name);
  } catch (error) {
    throw driverMissing(name, error);
  }
}
