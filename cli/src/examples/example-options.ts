import { InvalidArgumentError, Option } from 'commander';
import { seconds } from 'mcp-valise/internal';
import { installedSdk, needPackages, SDK_PACKAGES, type Sdk } from '../connection/sdk.ts';
import { UsageError } from '../errors.ts';
import type { KeyOptions } from '../options/key-source.ts';
import { reading } from '../options/options.ts';

/** Command-line options of an example. */
export interface ExampleOptions extends KeyOptions {
  readonly stdio?: boolean;
  readonly http?: number;
  readonly sdk: Sdk;
  readonly store?: string;
  readonly mode?: string;
  readonly withAuth?: boolean;
  readonly tokenTtl?: number;
}

/** Returns the options that select the transport of an example. */
export function waysToServe(): Option[] {
  return [
    new Option('--stdio', 'serve it over standard input and output'),
    new Option('--http <port>', 'serve it over HTTP; port 0 takes a free one').argParser(portOf),
  ];
}

/** Parses a port. */
export function portOf(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  throw new InvalidArgumentError('Give a port up to 65535, or 0 for a free one.');
}

function secondsOf(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Give a number of seconds, 1 or more.');
}

const durationOf = reading<string>((text) => {
  seconds(text);
  return text;
});

/** Returns the options of every example. */
export function commonOptions(): Option[] {
  return [
    new Option('--sdk <major>', 'major of the official SDK')
      .choices(['v1', 'v2'])
      .default(installedSdk('server'), 'v2, which speaks both eras, or v1 if only that is installed'),
    new Option('--store <url>', 'where state is kept for clients that carry none'),
    new Option('--stateless', 'over HTTP, no sessions of the transport'),
  ];
}

/** The options that only some examples have. */
export const OWN_OPTIONS: Readonly<Record<string, () => Option[]>> = {
  notebook: () => [
    new Option(
      '--mode <mode>',
      'where its sessions are: with the client, or in the store (default: sealed)',
    ).choices(['sealed', 'stored']),
    new Option('--ttl <duration>', 'how long its sessions live unused (default: 4h)').argParser(durationOf),
  ],
  vault: () => [
    new Option('--with-auth', 'let nobody in without signing in at an authorization server beside it'),
    new Option('--token-ttl <seconds>', 'how long a token of that server lives (default: 3600)').argParser(
      secondsOf,
    ),
    new Option('--forget-sessions', 'keep sessions in memory only, also with --store: a restart ends them'),
  ],
};

/** Rejects options that belong to another example. */
export function checkOwn(example: string, values: Readonly<Record<string, unknown>>): void {
  const own = new Set(OWN_OPTIONS[example]?.().map(({ long }) => long));
  for (const option of Object.values(OWN_OPTIONS).flatMap((options) => options())) {
    if (values[option.attributeName()] === undefined || own.has(option.long)) continue;
    throw new UsageError('invalid-argument', `The example ${example} has no option ${option.long}.`, {
      next: `See: valise example ${example} --help`,
    });
  }
}

/** Formats the options as arguments for an example. */
export function wordsFor(options: readonly Option[], values: Readonly<Record<string, unknown>>): string[] {
  return options.flatMap((option) => {
    const value = values[option.attributeName()];
    if (value === undefined) return [];
    return value === true ? [String(option.long)] : [`${option.long}=${value}`];
  });
}

/** Checks that all packages that an example needs are installed. */
export function needForExample({ sdk, stdio, withAuth }: ExampleOptions): void {
  needPackages(`The example on SDK ${sdk}`, [
    SDK_PACKAGES.server[sdk],
    ...(sdk === 'v2' && !stdio ? ['@modelcontextprotocol/node'] : []),
    'zod',
    ...(withAuth ? ['oidc-provider'] : []),
  ]);
}
