import { parseArgs } from 'node:util';
import { Argument, type Command } from 'commander';
import type { Example } from '../../../examples/serve.ts';
import { ValiseError } from '../../errors.ts';

/** Loaded when asked for: each brings the SDK along. */
const EXAMPLES: Readonly<Record<string, () => Promise<{ readonly example: Example }>>> = {
  shop: () => import('../../../examples/shop.ts'),
  notebook: () => import('../../../examples/notebook.ts'),
  'work-items': () => import('../../../examples/work-items.ts'),
  vault: () => import('../../../examples/vault.ts'),
};

/** The names of the examples. */
export const EXAMPLE_NAMES = Object.keys(EXAMPLES);

/** `valise example NAME`: small servers to try things on. */
export function exampleCommand(program: Command): void {
  program
    .command('example')
    .description('run one of the example servers')
    .addArgument(new Argument('<name>', 'which one').choices(EXAMPLE_NAMES))
    .argument('[options...]', 'how to serve it')
    .allowUnknownOption()
    .addHelpText(
      'after',
      `
Options of every example:
  --stdio | --http PORT   how it is served; port 0 takes a free one
  --sdk v1|v2             major of the official SDK (default: v2, which speaks both eras)
  --store URL             where state is kept for clients that carry none
  --stateless             over HTTP, no sessions of the transport

Options of notebook:
  --mode sealed|stored    where its sessions are: with the client, or in the store (default: sealed)
  --ttl DURATION          how long they live unused (default: 4h)

Options of vault:
  --with-auth             lets nobody in without signing in at an authorization server beside it
  --token-ttl SECONDS     how long a token of it lives (default: 3600)
  --forget-sessions       keeps sessions in memory only: a restart ends them

Examples:
  valise example shop --http 3000
  valise example notebook --http 3000 --mode stored --store redis://127.0.0.1:6379
  valise call 'stdio:valise example shop --stdio' view_cart`,
    )
    .action(async (name: string, options: readonly string[]) => {
      checkServing(options);
      const load = EXAMPLES[name] as () => Promise<{ readonly example: Example }>;
      const [{ example }, { serve }] = await Promise.all([load(), import('../../../examples/serve.ts')]);
      await serve(example, options);
    });
}

/** Before anything is loaded; the example itself reads the rest. */
function checkServing(args: readonly string[]): void {
  const {
    stdio,
    http,
    sdk = 'v2',
  } = parseArgs({
    args: [...args],
    options: { stdio: { type: 'boolean' }, http: { type: 'string' }, sdk: { type: 'string' } },
    strict: false,
  }).values;
  if (sdk !== 'v1' && sdk !== 'v2')
    throw new ValiseError('bad-option', `--sdk takes a major of the SDK, not "${given(sdk)}".`, {
      next: 'Give v1 or v2.',
    });
  if ((stdio === undefined) === (http === undefined))
    throw new ValiseError('bad-option', 'An example is served in one of two ways.', {
      next: 'Give either --stdio or --http PORT.',
    });
  if (http === undefined || (/^\d{1,5}$/.test(given(http)) && Number(http) <= 65_535)) return;
  throw new ValiseError('bad-option', `--http takes a port, not "${given(http)}".`, {
    next: 'Give a number up to 65535, or 0 for a free one.',
  });
}

/** An option without its value reads as true. */
function given(value: string | boolean): string {
  return typeof value === 'string' ? value : '';
}
