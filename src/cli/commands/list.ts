import type { Command } from 'commander';
import { connectTo } from '../connect.ts';
import { EXIT, type SetExit } from '../exit.ts';
import { type ConnectOptions, connectOptions } from '../options.ts';
import { printJson, printTable } from '../output.ts';

/** `valise list TARGET`: what a server offers. */
export function listCommand(program: Command, exit: SetExit): void {
  connectOptions(
    program
      .command('list')
      .description('list the tools of a server')
      .argument('<target>', "a URL, or 'stdio:COMMAND'"),
  )
    .addHelpText('after', "\nExample:\n  valise list 'stdio:npx -y @modelcontextprotocol/server-everything'")
    .action(async (target: string, options: ConnectOptions) => {
      const connected = await connectTo(target, options);
      try {
        const { tools } = await connected.client.listTools();
        if (options.json) printJson({ tools });
        else
          printTable(
            ['TOOL', 'DESCRIPTION'],
            tools.map(({ name, description = '' }) => [name, firstLine(description)]),
            'This server has no tools.',
          );
        exit(EXIT.ok);
      } finally {
        await connected.close();
      }
    });
}

function firstLine(text: string): string {
  const line = text.split('\n', 1)[0] ?? '';
  return line.length > 100 ? `${line.slice(0, 99)}…` : line;
}
