import { Argument, type Command } from 'commander';
import type { Example } from '../../../examples/serve.ts';

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

Examples:
  valise example shop --http 3000
  valise call 'stdio:valise example shop --stdio' view_cart`,
    )
    .action(async (name: string, options: readonly string[]) => {
      const load = EXAMPLES[name] as () => Promise<{ readonly example: Example }>;
      const [{ example }, { serve }] = await Promise.all([load(), import('../../../examples/serve.ts')]);
      await serve(example, options);
    });
}
