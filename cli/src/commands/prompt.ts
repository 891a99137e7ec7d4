import type { Command } from 'commander';
import type { Connected } from '../connection/connect.ts';
import { perform, TIMEOUT } from '../connection/perform.ts';
import { answerOption, type ConnectOptions, connectOptions } from '../options/options.ts';
import { printPart } from '../output/content.ts';
import { EXIT, type SetExit } from '../output/exit.ts';
import { print, printJson } from '../output/output.ts';
import { parseArguments } from './call.ts';

type Prompt = Awaited<ReturnType<Connected['client']['getPrompt']>>;

/** `valise prompt TARGET NAME [ARGS-JSON]`: gets a prompt with its arguments filled in. */
export function promptCommand(program: Command, exit: SetExit): void {
  answerOption(
    connectOptions(
      program
        .command('prompt')
        .description('get a prompt of a server')
        .argument('<target>', "a URL, or 'stdio:COMMAND'")
        .argument('<name>', 'name of the prompt, as valise list shows it')
        .argument('[args-json]', 'arguments of the prompt as a JSON object', '{}'),
    ),
  )
    .addHelpText(
      'after',
      `\nExample:\n  valise prompt https://docs.example.com/mcp summarize '{"topic":"sessions"}'`,
    )
    .action(async (target: string, name: string, args: string, options: ConnectOptions) => {
      const given = Object.entries(parseArguments(args));
      // Prompt arguments are strings, so other JSON values such as numbers are passed as their text.
      const strings = given.map(([key, value]) => [
        key,
        typeof value === 'string' ? value : JSON.stringify(value),
      ]);
      const params = { name, arguments: Object.fromEntries(strings) as Record<string, string> };
      exit(
        await perform(target, options, name, {
          work: ({ client }) => client.getPrompt(params, { timeout: TIMEOUT }),
          show: async (prompt) => {
            if (options.json) printJson(prompt);
            else printPrompt(prompt);
            return EXIT.ok;
          },
        }),
      );
    });
}

function printPrompt({ messages }: Prompt): void {
  for (const [at, { role, content }] of messages.entries()) {
    print(`${at === 0 ? '' : '\n'}${role}:`);
    printPart(content);
  }
}
