import { readFileSync, statSync } from 'node:fs';
import type { Command } from 'commander';
import { ValiseError } from 'mcp-valise/client';
import { type Keyring, parseKeys } from 'mcp-valise/seal';
import { CommandError } from '../errors.ts';
import { whatOnly } from '../output/exit.ts';

/** Options of every command that needs keys. */
export interface KeyOptions {
  readonly keyFile?: string;
}

/** The variable with the keys. Servers and clients seal with different keys. */
export type KeyVariable = 'VALISE_KEYS' | 'VALISE_CLIENT_KEYS';

/** Adds `--key-file`, for keys that are not in the environment. Keys are never arguments, because others can read those. */
export function keyOptions(command: Command, variable: KeyVariable = 'VALISE_KEYS'): Command {
  const whose = variable === 'VALISE_KEYS' ? 'the keys' : 'the keys that seal what is kept here';
  return command.option(
    '--key-file <path>',
    `file that holds ${whose}, as ${variable}=… or bare (default: the variable ${variable})`,
  );
}

/** Returns the keyring, if there is one. */
export function keysIfAny(options: KeyOptions, variable: KeyVariable = 'VALISE_KEYS'): Keyring | undefined {
  const isThere = options.keyFile !== undefined || process.env[variable]?.trim();
  return isThere ? readKeys(options, variable) : undefined;
}

/** Returns the keyring. If it cannot be read, the error says where it came from and how to create a valid one. */
export function readKeys(options: KeyOptions, variable: KeyVariable = 'VALISE_KEYS'): Keyring {
  const text = keysText(options, variable);
  try {
    return parseKeys(text);
  } catch (cause) {
    const { code } = cause as ValiseError;
    throw new ValiseError(code, `${options.keyFile ?? variable}: ${whatOnly(cause)}`, {
      next: 'Make a new key: valise keys generate',
    });
  }
}

/** Returns the text of the keyring, from the file or else from the environment. */
export function keysText({ keyFile }: KeyOptions, variable: KeyVariable = 'VALISE_KEYS'): string {
  const text = keyFile === undefined ? process.env[variable] : readKeyFile(keyFile);
  if (text === undefined || text.trim() === '') {
    throw new ValiseError(
      'no-keys',
      keyFile === undefined ? `${variable} is not set.` : `${keyFile} holds no keys.`,
      {
        next:
          keyFile === undefined
            ? 'Set it, or give --key-file PATH. A first key is made by: valise keys generate'
            : 'Give another file. One with a first key is made by: valise keys generate --out PATH',
      },
    );
  }
  return text.trim();
}

function readKeyFile(path: string): string {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (cause) {
    throw new CommandError('no-key-file', `${path} cannot be read.`, {
      next: 'Check the path and its permissions.',
      cause,
    });
  }
  if (process.platform !== 'win32' && (statSync(path).mode & 0o077) !== 0) {
    throw new CommandError('key-file-open', `${path} can be read by others.`, {
      next: `Close it: chmod 600 ${path}`,
    });
  }
  return text
    .replace(/^#.*\n?/gm, '')
    .replace(/^\s*(?:export\s+)?VALISE_(?:CLIENT_)?KEYS=/, '')
    .replace(/^(['"])(.*)\1\s*$/s, '$2');
}

/** The phases of a rotation, in order. */
export const PHASES = ['add', 'promote', 'drop'] as const;

/** One of {@link PHASES}. */
export type Phase = (typeof PHASES)[number];

/**
 * Returns the text of a key file. It records the rotation phase, so that the next phase can tell the new key from the old
 * one.
 */
export function keyFileText(keys: string, phase?: Phase): string {
  return `${phase === undefined ? '' : `# valise keys rotate --phase ${phase}\n`}VALISE_KEYS=${keys}\n`;
}

/** Returns the rotation phase that a key file records, if any. */
export function phaseIn(path: string): Phase | undefined {
  return /^# valise keys rotate --phase (add|promote|drop)$/m.exec(readFileSync(path, 'utf8'))?.[1] as
    | Phase
    | undefined;
}
