#!/usr/bin/env node
// `valise` of the library hands over to the package mcp-valise-cli: the one beside it in a checkout, else the installed one.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const launcher = find();
if (launcher) await import(launcher.href);
else {
  process.stderr.write(
    'valise: This command is in the package mcp-valise-cli, which is not installed here. Run `npx mcp-valise-cli`, or install it: npm install mcp-valise-cli\n',
  );
  process.exitCode = 1;
}

function find() {
  const beside = new URL('../cli/bin/valise.js', import.meta.url);
  if (existsSync(beside)) return beside;
  try {
    const manifest = createRequire(import.meta.url).resolve('mcp-valise-cli/package.json');
    return new URL('bin/valise.js', pathToFileURL(manifest));
  } catch {
    return undefined;
  }
}
