import type { Command } from 'commander';
import { parseTarget } from '../connection/target.ts';
import { openConsole } from '../console/open.ts';
import { portOf } from '../examples/example-options.ts';
import { type ConnectOptions, connectOptions } from '../options/options.ts';

/** Options of `valise console`. */
interface ConsoleOptions extends ConnectOptions {
  readonly write?: boolean;
  readonly server?: string;
  readonly name?: string;
  readonly port: number;
}

/** `valise console`: a page on this machine that shows what is kept. */
export function consoleCommand(program: Command): void {
  connectOptions(
    program
      .command('console')
      .description('show what is kept in a page on this machine: servers, state, questions, sign-ins, calls')
      .argument(
        '[target...]',
        "servers that the page may call, besides those in the store: URLs or 'stdio:COMMAND'",
      ),
  )
    .option('--write', 'let the page change what is kept, answer questions and call servers')
    .option('--server <store>', 'show the store of a server instead: sessions, flows, rejections, keys')
    .option('--name <name>', 'name of that server, to revoke its sessions with VALISE_KEYS')
    .option('--port <port>', 'port on 127.0.0.1 (default: a free one)', portOf, 0)
    .addHelpText(
      'after',
      `
The link works once, and only on this machine. Without --write the page only reads.

Examples:
  valise console
  valise console --write 'stdio:node server.js'
  valise console --server redis://127.0.0.1:6379`,
    )
    .action(async (targets: readonly string[], { write, server, name, port, ...options }: ConsoleOptions) => {
      for (const target of targets) parseTarget(target);
      await openConsole({ options, targets, write: write === true, server, name, port });
    });
}
