import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const src = (path: string) => fileURLToPath(new URL(`./src/${path}.ts`, import.meta.url));

export default defineConfig({
  resolve: {
    alias: [
      {
        find: /^mcp-valise\/(client|server|seal|store|adapters|otel|testing|internal)$/,
        replacement: src('$1/index'),
      },
      { find: 'mcp-valise/wire', replacement: src('wire/public') },
      { find: 'mcp-valise/store/redis', replacement: src('store/redis/index') },
      {
        find: /^mcp-valise\/store\/(sqlite|postgres|upstash|durable-object|workers-kv)$/,
        replacement: src('store/$1/store'),
      },
    ],
  },
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/global-setup.ts'],
    // Most tests have no keys and no listeners; what Valise then warns of is tested, not read.
    execArgv: ['--disable-warning=ValiseWarning'],
    testTimeout: 120_000,
    hookTimeout: 180_000,
    // A poll waits for a condition; the default of one second is an assertion about the speed of the machine.
    expect: { poll: { timeout: 30_000 } },
    maxWorkers: 2,
    // Type tests run with `--typecheck`, as `npm test` does: they take as long as a compilation. Errors in sources are
    // `npm run check`'s to report; here only the type tests count.
    typecheck: {
      include: ['test/**/*.test-d.ts'],
      tsconfig: './tsconfig.json',
      ignoreSourceErrors: true,
    },
  },
});
