import { cpSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';
import { startRedis } from '../../scripts/services.mjs';

declare module 'vitest' {
  interface ProvidedContext {
    redis: string;
  }
}

/** Copies the examples to where they find the packages of this folder, and starts a Redis. */
export async function setup({ provide }: TestProject): Promise<() => Promise<void>> {
  const work = fileURLToPath(new URL('.work/', import.meta.url));
  rmSync(work, { recursive: true, force: true });
  cpSync(fileURLToPath(new URL('../../examples/adapters/', import.meta.url)), `${work}examples`, {
    recursive: true,
  });
  const redis = await startRedis();
  provide('redis', redis.url);
  return () => redis.stop();
}
