import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['*.test.ts'],
    globalSetup: ['./setup.ts'],
    execArgv: ['--disable-warning=ValiseWarning'],
    testTimeout: 240_000,
    hookTimeout: 240_000,
    maxWorkers: 3,
  },
});
