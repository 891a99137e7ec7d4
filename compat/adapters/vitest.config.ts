import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  // The modules of the Workers runtime, which Cloudflare's package imports for what is not tried here.
  resolve: {
    alias: [{ find: /^cloudflare:.*/, replacement: fileURLToPath(new URL('workers.ts', import.meta.url)) }],
  },
  test: {
    include: ['*.test.ts'],
    globalSetup: ['./setup.ts'],
    setupFiles: ['./globals.ts'],
    execArgv: ['--disable-warning=ValiseWarning'],
    server: { deps: { inline: ['agents'] } },
    testTimeout: 60_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
  },
});
