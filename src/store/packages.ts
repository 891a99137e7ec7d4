import { createRequire } from 'node:module';
import { ValiseError } from '../core/errors.ts';

/** The packages that remote stores need, and what a caller can pass instead. */
const NEEDED = {
  ioredis: ['A Redis store', 'a client'],
  pg: ['A PostgreSQL store', 'a pool'],
} as const;

/** Returns the error for a store whose package is not installed. */
function driverMissing(name: keyof typeof NEEDED, cause?: unknown): ValiseError {
  const [store, other] = NEEDED[name];
  return new ValiseError('missing-package', `${store} needs the package ${name}.`, {
    next: `Run \`npm install ${name}\`, or hand over ${other} of your own.`,
    cause,
  });
}

/** Throws if the package is not installed next to this one. Does nothing in a bundle, where packages cannot be resolved. */
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

// The imports are inside `try`, because elsewhere bundlers treat a missing package as an error, even if it is unused.

/** Loads ioredis. Throws `missing-package` if it is not installed. */
export async function loadIoredis(): Promise<Pick<typeof import('ioredis'), 'Redis' | 'Cluster'>> {
  try {
    const library = await import('ioredis');
    // Bundlers that treat ioredis as CommonJS expose its exports as one default export.
    return library.Redis ? library : (library.default as unknown as typeof library);
  } catch (cause) {
    throw driverMissing('ioredis', cause);
  }
}

/** Loads pg. Throws `missing-package` if it is not installed. */
export async function loadPg(): Promise<typeof import('pg')> {
  try {
    return await import('pg');
  } catch (cause) {
    throw driverMissing('pg', cause);
  }
}
