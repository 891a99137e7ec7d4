#!/usr/bin/env node
// The launcher of the command `valise`. In a fresh checkout it builds first, since dist is not in git.
import { existsSync } from 'node:fs';

const built = new URL('../dist/main.js', import.meta.url);

if (!existsSync(built)) {
  const source = new URL('../src/main.ts', import.meta.url);
  const prepare = new URL('../../scripts/prepare.mjs', import.meta.url);
  if (!existsSync(source) || !existsSync(prepare)) {
    process.stderr.write(
      'valise: dist/main.js is missing from this installation. Install mcp-valise-cli again.\n',
    );
    process.exit(1);
  }
  process.stderr.write('valise: dist is not built yet; building it once.\n');
  const { build, install } = await import(prepare.href);
  try {
    await install();
    await build();
  } catch (error) {
    process.stderr.write(`valise: ${error.message}\n`);
    process.exit(1);
  }
}

// Whoever reads along, such as `head`, may have had enough; or there is no room left for what is written.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error) => {
    if (error.code === 'EPIPE') process.exit();
    if (stream === process.stdout)
      process.stderr.write(`valise: The output could not be written (${error.message}).\n`);
    process.exit(1);
  });
}

const { main } = await import(built.href);
process.exitCode = await main(process.argv.slice(2));
