import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { subpaths } from './manifest.ts';
import { root } from './sources.ts';

const loader = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;

/** What Cloudflare Workers refuse while modules are loaded: "Disallowed operation called within global scope". */
const REFUSING = `
  const { default: crypto } = await import('node:crypto');
  const { syncBuiltinESMExports } = await import('node:module');
  const refuse = (name) => () => { throw new Error(name + ' was called while a module was loaded'); };
  for (const name of ['randomBytes', 'randomUUID', 'randomInt', 'generateKeySync'])
    crypto[name] = refuse(name);
  for (const name of ['getRandomValues', 'randomUUID'])
    Object.defineProperty(globalThis.crypto, name, { value: refuse(name) });
  for (const name of ['setTimeout', 'setInterval', 'fetch']) globalThis[name] = refuse(name);
  syncBuiltinESMExports();`;

it.each(subpaths.map(({ specifier, source }) => [specifier, source]))(
  '%s draws no random bytes, sets no timer and sends nothing when it is imported',
  async (_, source) => {
    const url = pathToFileURL(`${root}src/${source}`).href;
    const program = `${REFUSING}\nawait import(${JSON.stringify(url)}); console.log('imported');`;
    const { stdout } = await promisify(execFile)(process.execPath, [
      ...['--import', loader, '--input-type=module', '-e', program],
    ]);
    expect(stdout).toContain('imported');
  },
);
