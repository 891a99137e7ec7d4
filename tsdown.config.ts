import { defineConfig } from 'tsdown';

/** One file per subpath export, plus what the launcher in `bin/` runs. */
export default defineConfig({
  entry: [
    'src/{client,server,seal,store,wire}/index.ts',
    'src/store/{contract,sqlite,redis,postgres,keychain}.ts',
    'src/cli/main.ts',
    'examples/*.ts',
  ],
  outDir: 'dist',
  format: 'esm',
  target: 'node20',
  platform: 'node',
  dts: { resolver: 'tsc' },
  fixedExtension: false,
  hash: true,
  external: [/^mcp-valise\//],
});
