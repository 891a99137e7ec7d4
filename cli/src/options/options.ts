import { statSync } from 'node:fs';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { ValiseError } from 'mcp-valise/client';
import { checkStoreUrl, fileOf } from 'mcp-valise/internal';
import { parseAnswers } from '../ask/answerer.ts';
import { parseResolution, type Resolution, withResolution } from '../connection/resolve.ts';
import { type EraChoice, installedSdk, type Sdk } from '../connection/sdk.ts';
import { parseEnvName } from '../connection/target.ts';
import { checkUsage, isExplained, UsageError } from '../errors.ts';
import { type KeyOptions, keyOptions } from './key-source.ts';

/** Options of every command that connects to a server. */
export interface ConnectOptions extends KeyOptions {
  readonly store?: string;
  readonly principal?: string;
  readonly resolve: readonly Resolution[];
  readonly allowLocal?: boolean;
  readonly era: EraChoice;
  readonly sdk: Sdk;
  readonly header: Readonly<Record<string, string>>;
  /** Names of environment variables. */
  readonly env: readonly string[];
  readonly json?: boolean;
  readonly answer?: readonly string[];
  readonly insecurePlaintext?: boolean;
  /** False if the user signs in on another machine and pastes the redirected URL here. */
  readonly browser?: boolean;
  readonly redirectPort?: number;
  readonly trace?: boolean;
  readonly recordEvents?: boolean;
}

/** Wraps a parser that throws, so that commander reports a usage error. */
export function reading<T>(read: (text: string, before: T) => T): (text: string, before: T) => T {
  return (text, before) => {
    try {
      return read(text, before);
    } catch (error) {
      if (isExplained(error)) throw new InvalidArgumentError(error.message);
      throw error;
    }
  };
}

/** Adds `--store` and `--key-file`, shared by every command that uses stored state. */
export function storeOption(command: Command): Command {
  return keyOptions(
    command.option(
      '--store <url>',
      'where state is kept: sqlite:PATH, file:PATH, redis://…, postgres://…, memory: (default: $VALISE_STORE, else sqlite:~/.valise/state.db)',
    ),
    'VALISE_CLIENT_KEYS',
  );
}

/** Adds the options of commands that use stored state without connecting. */
export function keptOptions(command: Command): Command {
  return storeOption(command)
    .option('--principal <id>', 'the user whose state it is, if one store serves several')
    .option('--insecure-plaintext', 'keep tokens in the store as plain text; a choice, never a fallback')
    .option('--json', 'print as JSON on one line');
}

/** Adds the options of {@link ConnectOptions}. */
export function connectOptions(command: Command): Command {
  return keptOptions(command)
    .option(
      '--resolve <host:port:address[:port]>',
      'connect to ADDRESS (or several, separated by commas) for HOST:PORT (HOST * is any), like curl; may be repeated',
      reading<readonly Resolution[]>((text, before) => withResolution(before, parseResolution(text))),
      [],
    )
    .option('--no-browser', 'print the sign-in page, and read the address that it redirects to from stdin')
    .option(
      '--redirect-port <port>',
      'port on 127.0.0.1 that a sign-in redirects to (default: a free one)',
      reading<number | undefined>(parsePort),
    )
    .option(
      '--record-events',
      'record what happens in the store, for valise console: the last 200 events of a process, for a day',
    )
    .option(
      '--allow-local',
      'also keep state for localhost and IP addresses; for development only, because another program may take over such a name',
    )
    .addOption(
      new Option('--era <era>', 'era of the protocol to speak')
        .choices(['auto', 'legacy', 'modern'])
        .default('auto'),
    )
    .addOption(
      new Option('--sdk <major>', 'major of the official SDK to use')
        .choices(['v1', 'v2'])
        .default(installedSdk('client'), 'v2, or v1 if only that is installed'),
    )
    .option(
      '-H, --header <name: value>',
      'add an HTTP header; may be repeated',
      // Does not use `reading`, whose errors show the value, which may be a secret.
      (text: string, before: Readonly<Record<string, string>>) => ({ ...before, ...parseHeader(text) }),
      {},
    )
    .option(
      '--env <name>',
      'pass this variable to a server that is a command; may be repeated',
      (text: string, before: readonly string[]) => [...before, parseEnvName(text)],
      [],
    );
}

function parsePort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port >= 1 && port <= 65_535) return port;
  throw new UsageError('invalid-argument', `${JSON.stringify(text)} is not a port.`, {
    next: 'Ports go from 1 to 65535.',
  });
}

function parseHeader(text: string): Record<string, string> {
  const colon = text.indexOf(':');
  const name = text.slice(0, colon).trim();
  if (colon < 1 || !/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) {
    throw new UsageError('bad-header', 'The value of --header is not a header.', {
      next: "Write for example 'X-Tenant: acme'.",
    });
  }
  const value = text.slice(colon + 1).trim();
  try {
    new Headers([[name, value]]);
  } catch {
    // The original error quotes the value.
    throw new UsageError('bad-header', `The value of ${name} has characters that no header can carry.`, {
      next: 'Write it in ASCII.',
    });
  }
  return { [name]: value };
}

/** Adds `--answer`, for commands in which a server may ask something. */
export function answerOption(command: Command): Command {
  return command.option(
    '--answer <field=value>',
    'answer a question of the server, by field; may be repeated',
    reading<readonly string[]>((text, before) => {
      parseAnswers([text]);
      return [...before, text];
    }),
    [],
  );
}

/** Adds `--trace`, for commands that exchange messages with a server. */
export function traceOption(command: Command): Command {
  return command.option('--trace', 'print the messages to stderr as they are sent and received');
}

/** Whether the contents of a store are visible to other processes and outlive this one. */
export function isLasting(store: string | undefined): boolean {
  return !storeUrl(store).startsWith('memory:');
}

/** Returns the store's URL from the command line, the environment or the default, unchecked. */
export function givenStoreUrl(store: string | undefined): string {
  return store ?? process.env['VALISE_STORE'] ?? 'sqlite:~/.valise/state.db';
}

/** Returns the store's URL like {@link givenStoreUrl}. Throws if no store can have it. */
export function storeUrl(store: string | undefined): string {
  const url = givenStoreUrl(store);
  checkUsage(() => checkStoreUrl(url));
  return url;
}

/** Throws if a URL names a file that does not exist, so that a typo does not create another store. */
export function checkThere(url: string): void {
  const file = fileOf(url);
  if (file !== undefined && !isThere(file))
    throw new ValiseError('no-store', `There is no store in ${file}.`, {
      next: 'Check its path. The first program that keeps something in a store creates it.',
    });
}

/** Whether a file exists. */
export function isThere(file: string): boolean {
  try {
    return statSync(file, { throwIfNoEntry: false }) !== undefined;
  } catch {
    // Opening the file will report why it cannot be accessed.
    return true;
  }
}
