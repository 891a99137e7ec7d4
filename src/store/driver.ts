import { createRequire } from 'node:module';
import { ValiseError } from '../errors.ts';

/** Packages that stores on servers need, and what else can be given in their place. */
const NEEDED = {
  ioredis: ['A Redis store', 'a client'],
  pg: ['A PostgreSQL store', 'a pool'],
} as const;

/** The package that a store needs is not installed. */
function driverMissing(name: keyof typeof NEEDED, cause?: unknown): ValiseError {
  const [store, other] = NEEDED[name];
  return new ValiseError('store-driver-missing', `${store} needs the package ${name}.`, {
    next: `Run \`npm install ${name}\`, or hand over ${other} of your own.`,
    cause,
  });
}

/** Throws if the package is not installed beside this one. In a bundle, where packages have no place, nothing is known. */
export function requireDriver(name: keyof typeof NEEDED): void {
  let resolve: (id: string) => string;
  try {
    ({ resolve } = createRequire(import.meta.url));
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

// Inside of `try`, because bundlers take a missing package anywhere else for an error, also if nobody uses it.

/** Loads ioredis. */
export async function loadIoredis(): Promise<Pick<typeof import('ioredis'), 'Redis' | 'Cluster'>> {
  try {
    const library = await import('ioredis');
    // Bundlers that treat ioredis as CommonJS offer its exports as one default export.
    return library.Redis ? library : (library.default as unknown as typeof library);
  } catch (cause) {
    throw driverMissing('ioredis', cause);
  }
}

/** Loads pg. */
export async function loadPg(): Promise<typeof import('pg')> {
  try {
    return await import('pg');
  } catch (cause) {
    throw driverMissing('pg', cause);
  }
}
