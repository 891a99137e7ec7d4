import { cpSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';
import { startPostgres, startRedis } from '../../scripts/services.mjs';

declare module 'vitest' {
  interface ProvidedContext {
    redis: string;
    postgres: string;
  }
}

/** Copies the examples to where they find the packages of this folder, and starts Redis and PostgreSQL. */
export async function setup({ provide }: TestProject): Promise<() => Promise<void>> {
  const work = fileURLToPath(new URL('.work/', import.meta.url));
  rmSync(work, { recursive: true, force: true });
  cpSync(fileURLToPath(new URL('../../examples/adapters/', import.meta.url)), `${work}examples`, {
    recursive: true,
  });
  const [redis, postgres] = await Promise.all([startRedis(), startPostgres()]);
  provide('redis', redis.url);
  provide('postgres', postgres.url);
  return async () => {
    await Promise.all([redis.stop(), postgres.stop()]);
  };
}
