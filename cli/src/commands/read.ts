import type { Command } from 'commander';
import { perform, TIMEOUT } from '../connection/perform.ts';
import { answerOption, type ConnectOptions, connectOptions } from '../options/options.ts';
import { printPart, saveParts } from '../output/content.ts';
import { EXIT, type SetExit } from '../output/exit.ts';
import { printJson } from '../output/output.ts';

interface ReadOptions extends ConnectOptions {
  readonly out?: string;
}

/** `valise read TARGET URI`: prints the contents of a resource. */
export function readCommand(program: Command, exit: SetExit): void {
  answerOption(
    connectOptions(
      program
        .command('read')
        .description('read a resource of a server')
        .argument('<target>', "a URL, or 'stdio:COMMAND'")
        .argument('<uri>', 'the URI of the resource, as valise list shows it'),
    ),
  )
    .option('--out <path>', 'write the contents to this file, or into this folder')
    .addHelpText(
      'after',
      '\nExamples:\n  valise read https://docs.example.com/mcp docs://intro\n  valise read https://docs.example.com/mcp docs://logo --out logo.png',
    )
    .action(async (target: string, uri: string, options: ReadOptions) =>
      exit(
        await perform(target, options, uri, {
          work: ({ client }) => client.readResource({ uri }, { timeout: TIMEOUT }),
          show: async (result) => {
            const { contents } = result;
            if (options.json) printJson(result);
            if (options.out !== undefined)
              await saveParts(contents, options.out, { all: true, show: !options.json });
            else if (!options.json) for (const part of contents) printPart(part);
            return EXIT.ok;
          },
        }),
      ),
    );
}
