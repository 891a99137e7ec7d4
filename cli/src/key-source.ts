import { readFileSync, statSync } from 'node:fs';
import type { Command } from 'commander';
import { ValiseError } from 'mcp-valise/client';
import { type Keyring, parseKeys } from 'mcp-valise/seal';
import { whatOnly } from './exit.ts';

/** Options of every command that needs keys. */
export interface KeyOptions {
  readonly keyFile?: string;
}

/** Whose keys they are: what a server seals, and what a client keeps, are sealed with different ones. */
export type KeyVariable = 'VALISE_KEYS' | 'VALISE_CLIENT_KEYS';

/** `--key-file`, for keys that are not in the environment. Never on the command line itself, where others could read them. */
export function keyOptions(command: Command, variable: KeyVariable = 'VALISE_KEYS'): Command {
  const whose = variable === 'VALISE_KEYS' ? 'the keys' : 'the keys that seal what is kept here';
  return command.option(
    '--key-file <path>',
    `file that holds ${whose}, as ${variable}=… or bare (default: the variable ${variable})`,
  );
}

/** The keyring, where there is one. */
export function keysIfAny(options: KeyOptions, variable: KeyVariable = 'VALISE_KEYS'): Keyring | undefined {
  const isThere = options.keyFile !== undefined || process.env[variable]?.trim();
  return isThere ? readKeys(options, variable) : undefined;
}

/** The keyring; where it cannot be read, the error says where it came from and how to make a good one. */
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

/** The text of the keyring: from the file, else from the environment. */
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
    throw new ValiseError('no-key-file', `${path} cannot be read.`, {
      next: 'Check the path and its permissions.',
      cause,
    });
  }
  if (process.platform !== 'win32' && (statSync(path).mode & 0o077) !== 0) {
    throw new ValiseError('key-file-open', `${path} can be read by others.`, {
      next: `Close it: chmod 600 ${path}`,
    });
  }
  return text
    .replace(/^#.*\n?/gm, '')
    .replace(/^\s*(?:export\s+)?VALISE_(?:CLIENT_)?KEYS=/, '')
    .replace(/^(['"])(.*)\1\s*$/s, '$2');
}

/** The phases of a rotation, in their order. */
export const PHASES = ['add', 'promote', 'drop'] as const;

/** One of {@link PHASES}. */
export type Phase = (typeof PHASES)[number];

/** A file of keys; a phase of a rotation is noted in it, so that the next one can tell the new key from the old. */
export function keyFileText(keys: string, phase?: Phase): string {
  return `${phase === undefined ? '' : `# valise keys rotate --phase ${phase}\n`}VALISE_KEYS=${keys}\n`;
}

/** The phase of a rotation that a file of keys comes from, where that is noted. */
export function phaseIn(path: string): Phase | undefined {
  return /^# valise keys rotate --phase (add|promote|drop)$/m.exec(readFileSync(path, 'utf8'))?.[1] as
    | Phase
    | undefined;
}
