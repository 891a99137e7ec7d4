import { copyFileSync, readFileSync } from 'node:fs';
import type { Command } from 'commander';
import {
  copyEntries,
  fileOf,
  fullPath,
  keyFileOf,
  openAsItIs,
  privateFile,
  redactUrls,
} from 'mcp-valise/internal';
import { UsageError } from '../errors.ts';
import { checkThere, isLasting, isThere } from '../options/options.ts';
import { clean, print, printJson, remark } from '../output/output.ts';

interface CopyOptions {
  readonly merge?: boolean;
  readonly json?: boolean;
}

/** `valise store copy FROM TO`: copies a store's entries to another store. */
export function storeCommand(program: Command): void {
  program
    .command('store')
    .description('copy what a store holds into another one')
    .addHelpText('after', '\nExample:\n  valise store copy sqlite:~/.valise/state.db redis://127.0.0.1:6379')
    .command('copy')
    .description('copy all entries, sealed or not, as they are')
    .argument('<from>', 'URL of a store')
    .argument('<to>', 'URL of an empty store')
    .option('--merge', 'also into a store that is not empty; what it holds already stays')
    .option('--json', 'print as JSON on one line')
    .addHelpText(
      'after',
      `
First stop programs that use the stores. Sealed entries stay sealed with the same keys, which are not needed here.

Example:
  valise store copy sqlite:~/.valise/state.db redis://127.0.0.1:6379`,
    )
    .action(copy);
}

async function copy(fromUrl: string, toUrl: string, { merge, json }: CopyOptions): Promise<void> {
  checkUrls(fromUrl, toUrl);
  const from = await openAsItIs(fromUrl);
  try {
    const to = await openAsItIs(toUrl);
    try {
      const onProgress = (count: number): void => remark(`valise: ${count} entries …`);
      const result = await copyEntries(from, to, { merge, onProgress });
      if (result.copied > 0) copyKeyFile(fromUrl, toUrl);
      if (json) printJson({ ...result });
      else print(said(result.copied, result.skipped));
    } finally {
      await to.close();
    }
  } finally {
    await from.close();
  }
}

function said(copied: number, skipped: number): string {
  return `${copied} copied${skipped === 0 ? '' : `, ${skipped} left as they were`}`;
}

function checkUrls(from: string, to: string): void {
  checkThere(from);
  for (const url of [from, to])
    if (!isLasting(url))
      throw new UsageError('invalid-argument', 'A store in memory is empty, and ends with this command.', {
        next: 'Give stores that last.',
      });
  if (from === to || (fileOf(from) !== undefined && fileOf(from) === fileOf(to)))
    throw new UsageError('invalid-argument', `${redactUrls(from)} cannot be copied into itself.`, {
      next: 'Give two stores.',
    });
}

/** Copies the key file beside the store, which opens sign-ins on machines without a keychain. */
function copyKeyFile(fromUrl: string, toUrl: string): void {
  const from = fullPath(keyFileOf(fromUrl));
  const to = fullPath(keyFileOf(toUrl));
  if (from === to || !isThere(from)) return;
  if (!isThere(to)) {
    copyFileSync(privateFile(from), privateFile(to));
    remark(`valise: The key of sign-ins was copied to ${clean(to)}.`);
  } else if (readFileSync(from, 'utf8') !== readFileSync(to, 'utf8'))
    remark(`valise: ${clean(to)} has another key than ${clean(from)}: sign in again.`);
}
