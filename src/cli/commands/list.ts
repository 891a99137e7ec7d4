import type { Tool } from '@modelcontextprotocol/client';
import type { Command } from 'commander';
import { type Connected, connectTo } from '../connect.ts';
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
        const tools = await allTools(connected.client);
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

/** Of a server that gives its list in pages, all of them. A server that never comes to an end is left at some point. */
async function allTools(client: Connected['client']): Promise<Tool[]> {
  const tools: Tool[] = [];
  const seen = new Set<string>();
  for (let cursor: string | undefined; ; ) {
    const page = await client.listTools(cursor === undefined ? undefined : { cursor });
    tools.push(...page.tools);
    cursor = page.nextCursor;
    if (cursor === undefined || seen.has(cursor) || seen.size >= MAX_PAGES) return tools;
    seen.add(cursor);
  }
}

const MAX_PAGES = 1000;

function firstLine(text: string): string {
  const line = text.split('\n', 1)[0] ?? '';
  return line.length > 100 ? `${line.slice(0, 99)}…` : line;
}
