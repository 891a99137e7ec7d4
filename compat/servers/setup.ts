import { cpSync, rmSync } from 'node:fs';
import type { TestProject } from 'vitest/node';
import { startRedis } from '../../scripts/services.mjs';
import { startUpstash } from '../../test/store/upstash-server.ts';
import { examples, work } from './places.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The URL of a store that is reached over HTTP. */
    upstash: string;
  }
}

/** Copies the examples to where they find the packages of this folder, and starts a Redis behind HTTP. */
export async function setup({ provide }: TestProject): Promise<() => Promise<void>> {
  rmSync(work, { recursive: true, force: true });
  cpSync(examples, `${work}examples`, { recursive: true });
  const redis = await startRedis();
  const upstash = await startUpstash(redis.url);
  provide('upstash', upstash.storeUrl);
  return async () => {
    await upstash.close();
    await redis.stop();
  };
}
