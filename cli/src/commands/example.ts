import type { Command } from 'commander';
import type { Example } from '../../../examples/serve.ts';
import { UsageError } from '../errors.ts';
import {
  commonOptions,
  type ExampleOptions,
  needForExample,
  OWN_OPTIONS,
  waysToServe,
  wordsFor,
} from '../examples/example-options.ts';
import { keyOptions, keysIfAny } from '../options/key-source.ts';
import { remark, tellPerson } from '../output/output.ts';

/** The description and loader of each example. They are loaded on demand, because each one imports the SDK. */
const EXAMPLES: Readonly<
  Record<string, [about: string, load: () => Promise<{ readonly example: Example }>]>
> = {
  shop: ['a cart that the client carries', () => import('../../../examples/shop.ts')],
  notebook: [
    'sessions that the client makes, with state of their own',
    () => import('../../../examples/notebook.ts'),
  ],
  'work-items': [
    'a tool that asks in the middle, and continues on any instance',
    () => import('../../../examples/work-items.ts'),
  ],
  vault: [
    'sessions that survive a crash of the server, with --store',
    () => import('../../../examples/vault.ts'),
  ],
};

/** Names of the examples. */
export const EXAMPLE_NAMES = Object.keys(EXAMPLES);

/** `valise example NAME`: small servers for experiments. */
export function exampleCommand(program: Command): void {
  const examples = program
    .command('example')
    .description('run one of the example servers')
    .addHelpText(
      'after',
      `
Options of an example: valise example vault --help

Examples:
  valise example shop --http 3000
  valise example notebook --http 3000 --mode stored --store redis://127.0.0.1:6379
  valise call 'stdio:valise example shop --stdio' view_cart
  valise call 'stdio:valise example shop --stdio --key-file shop.env' recall '{"name":"size"}'`,
    );
  for (const [name, [about, load]] of Object.entries(EXAMPLES)) {
    const command = examples.command(name).description(about);
    for (const option of [...waysToServe(), ...commonOptions(), ...(OWN_OPTIONS[name]?.() ?? [])])
      command.addOption(option);
    keyOptions(command)
      .addHelpText(
        'after',
        `\nExamples:\n  valise example ${name} --http 3000\n  valise example ${name} --stdio`,
      )
      .action(async (options: ExampleOptions) => {
        checkWay(options);
        const keys = keysIfAny(options);
        needForExample(options);
        if (options.tokenTtl !== undefined && !options.withAuth)
          remark('valise: --token-ttl is of no use without --with-auth.');
        if (options.stdio)
          tellPerson(`To list its tools: valise list 'stdio:valise example ${name} --stdio'`);
        const [{ example }, { serve }] = await Promise.all([load(), import('../../../examples/serve.ts')]);
        const words = wordsFor(command.options, { ...options, keyFile: undefined });
        await serve(example, words, { keys, inOtherWords });
      });
  }
}

/** Rewords the library's advice, which addresses server authors. A server on stdio does not inherit the variable. */
function inOtherWords(next: string): string {
  return next.replace(
    'Set VALISE_KEYS, or give createValise the option keys.',
    'Give it --key-file PATH (made by: valise keys generate --out PATH), or set VALISE_KEYS where it runs.',
  );
}

function checkWay({ stdio, http }: ExampleOptions): void {
  if ((stdio === undefined) === (http === undefined))
    throw new UsageError('invalid-argument', 'An example is served in one of two ways.', {
      next: 'Give either --stdio or --http PORT.',
    });
}
