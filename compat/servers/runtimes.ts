import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { generateKey } from 'mcp-valise/seal';
import { inject } from 'vitest';
import { work } from './places.ts';
import { freePort, runToEnd, type Started, start } from './start.ts';

const packages = fileURLToPath(new URL('node_modules/', import.meta.url));

/** Starts an example on Node. */
export const onNode = (example: string) => () =>
  start(process.execPath, ['--import', 'tsx', `${example}.ts`]);

/** Starts an example on Node 22, for packages that need it; scripts/compat.mjs says where it is. */
export const onNode22 = (example: string) => () =>
  start(process.env['COMPAT_NODE22'] ?? process.execPath, ['--import', 'tsx', `${example}.ts`]);

/** Starts an example on Node as processes that share a store. */
export const inProcesses = (example: string) => () =>
  start(process.execPath, ['--import', 'tsx', `${example}.ts`], { env: sharedStore(example) });

/** Starts an example as a Lambda function behind its URL. */
export const onLambda = (example: string) => () =>
  start(
    process.execPath,
    [
      ...['--import', 'tsx', fileURLToPath(new URL('lambda-url.mjs', import.meta.url))],
      `${work}examples/${example}.ts`,
    ],
    { env: sharedStore(example) },
  );

/** A store that several processes share. */
const sharedStore = (example: string) => ({ VALISE_STORE: `file:${work}${example}-store.json` });

/** A store that is reached over HTTP, as on the edge. */
const httpStore = () => ({ VALISE_STORE: inject('upstash') });

/** Starts an example on Deno, whose program comes from npm. */
export const onDeno = (example: string) => () =>
  start(
    `${packages}@deno/${process.platform}-${process.arch}-glibc/deno`,
    [
      ...[
        'run',
        '--allow-net',
        '--allow-env',
        '--allow-read',
        '--allow-sys',
        '--no-prompt',
        '--node-modules-dir=manual',
      ],
      `${example}.ts`,
    ],
    { env: httpStore() },
  );

/** Bun's program comes from npm. If npm runs the install script of the package `bun`, that moves it into the package. */
const bunProgram = (): string => {
  const unmoved = `${packages}@oven/bun-${process.platform}-${process.arch}/bin/bun`;
  return existsSync(unmoved) ? unmoved : `${packages}bun/bin/bun.exe`;
};

/** Starts an example on Bun. */
export const onBun = (example: string) => () =>
  start(bunProgram(), ['run', `${example}.ts`], { env: httpStore() });

/** Builds a Next.js app around the example as its route, without keys, as in CI; then starts it with keys. */
export const onNext = (example: string) => async (): Promise<Started> => {
  const app = `${work}next/`;
  mkdirSync(`${app}app/mcp`, { recursive: true });
  cpSync(`${work}examples/${example}.ts`, `${app}app/mcp/route.ts`);
  cpSync(`${work}examples/notes.ts`, `${app}app/mcp/notes.ts`);
  writeFileSync(`${app}package.json`, '{ "private": true, "type": "module" }');
  // Nothing outside of this folder is looked at: packages that are not installed here must not be found.
  const config = { turbopack: { root: fileURLToPath(new URL('.', import.meta.url)) } };
  writeFileSync(`${app}next.config.mjs`, `export default ${JSON.stringify(config)};\n`);
  writeFileSync(`${app}tsconfig.json`, JSON.stringify(NEXT_TYPES));
  const next = `${packages}next/dist/bin/next`;
  const env = {
    NEXT_TELEMETRY_DISABLED: '1',
    NODE_ENV: 'production',
    NODE_OPTIONS: '',
    VALISE_KEYS: undefined,
  };
  await runToEnd(process.execPath, [next, 'build'], app, env);
  return start(process.execPath, [next, 'start', '--hostname', '127.0.0.1'], {
    cwd: app,
    env: { ...env, VALISE_KEYS: generateKey() },
  });
};

const NEXT_TYPES = {
  compilerOptions: {
    target: 'ES2022',
    lib: ['dom', 'dom.iterable', 'esnext'],
    module: 'esnext',
    moduleResolution: 'bundler',
    strict: true,
    allowImportingTsExtensions: true,
    noEmit: true,
    esModuleInterop: true,
    isolatedModules: true,
    resolveJsonModule: true,
    jsx: 'react-jsx',
    skipLibCheck: true,
    allowJs: true,
    incremental: true,
    plugins: [{ name: 'next' }],
  },
  include: ['next-env.d.ts', '**/*.ts', '.next/types/**/*.ts', '.next/dev/types/**/*.ts'],
  exclude: ['node_modules'],
};

/** Bundles a Worker as wrangler does, with esbuild, and serves it with workerd, whose program comes from npm. */
export const onWorkerd = (example: string) => async (): Promise<Started> => {
  const folder = `${work}${example}/`;
  mkdirSync(`${folder}objects`, { recursive: true });
  await build({
    entryPoints: [`${work}examples/${example}.ts`],
    outfile: `${folder}worker.mjs`,
    bundle: true,
    format: 'esm',
    platform: 'neutral',
    target: 'es2022',
    conditions: ['workerd', 'worker', 'browser'],
    mainFields: ['browser', 'module', 'main'],
    // Drivers as if they were not installed: esbuild leaves those alone, and nobody loads them there.
    external: ['node:*', 'cloudflare:*', 'ioredis', 'pg', '@napi-rs/keyring'],
    logLevel: 'silent',
  });
  const port = await freePort();
  writeFileSync(`${folder}front.mjs`, FRONT);
  writeFileSync(`${folder}worker.capnp`, workerdConfig(port));
  const program = `${packages}@cloudflare/workerd-${process.platform}-${process.arch === 'x64' ? '64' : process.arch}/bin/workerd`;
  return start(program, ['serve', 'worker.capnp'], { cwd: folder, port });
};

/** Hands each request to the other isolate than the one before. */
const FRONT = `let count = 0;
export default { fetch: (request, { first, second }) => (count++ % 2 ? second : first).fetch(request) };
`;

/** The Worker in two isolates, which share a Durable Object and nothing else, and what hands them requests. */
function workerdConfig(port: number): string {
  const worker = (namespace: string, more = '') => `(
    modules = [(name = "worker.mjs", esModule = embed "worker.mjs")],
    compatibilityDate = "2026-07-01",
    compatibilityFlags = ["nodejs_compat"],
    bindings = [
      (name = "VALISE_KEYS", fromEnvironment = "VALISE_KEYS"),
      (name = "STORE", durableObjectNamespace = ${namespace}),
    ],
    ${more}
  )`;
  const own = `durableObjectNamespaces = [(className = "ValiseStoreObject", uniqueKey = "valise", enableSql = true)],
    durableObjectStorage = (localDisk = "objects"),`;
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "objects", disk = (path = "objects", writable = true)),
    (name = "first", worker = ${worker('"ValiseStoreObject"', own)}),
    (name = "second", worker = ${worker('(className = "ValiseStoreObject", serviceName = "first")')}),
    (name = "front", worker = (
      modules = [(name = "front.mjs", esModule = embed "front.mjs")],
      compatibilityDate = "2026-07-01",
      bindings = [(name = "first", service = "first"), (name = "second", service = "second")],
    )),
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "front")],
);
`;
}
