import { resolve as absolute } from 'node:path';
import { redactUrls } from 'mcp-valise/internal';
import { resolutionText } from '../connection/resolve.ts';
import type { ConnectOptions } from './options.ts';

/** Formats the options of a command for a follow-up command. Omits secrets, because the output may end up in a log. */
export function followUpOptions({
  store,
  keyFile,
  principal,
  resolve = [],
  allowLocal,
  era = 'auto',
  sdk = 'v2',
  header = {},
  env = [],
  insecurePlaintext,
  browser,
  redirectPort,
}: Partial<ConnectOptions>): string[] {
  return [
    ...(store === undefined ? [] : ['--store', redactUrls(store)]),
    ...(keyFile === undefined ? [] : ['--key-file', absolute(keyFile)]),
    ...(principal === undefined ? [] : ['--principal', principal]),
    ...resolve.flatMap((one) => ['--resolve', resolutionText(one)]),
    ...(allowLocal ? ['--allow-local'] : []),
    ...(era === 'auto' ? [] : ['--era', era]),
    ...(sdk === 'v2' ? [] : ['--sdk', sdk]),
    ...Object.keys(header).flatMap((name) => ['-H', `${name}: …`]),
    ...env.flatMap((name) => ['--env', name]),
    ...(insecurePlaintext ? ['--insecure-plaintext'] : []),
    ...(browser === false ? ['--no-browser'] : []),
    ...(redirectPort === undefined ? [] : ['--redirect-port', String(redirectPort)]),
  ];
}
