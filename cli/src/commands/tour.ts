import { isBuiltin } from 'node:module';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { needPackages, SDK_PACKAGES } from '../connection/sdk.ts';
import { tourConsole } from '../console/tour.ts';
import { EXIT, type SetExit } from '../output/exit.ts';
import { beClient } from '../tour/client-process.ts';
import { playTour, STORIES, type TourOptions } from '../tour/play.ts';

/** `valise tour`: shows what Valise does in four stories with real processes. */
export function tourCommand(program: Command, exit: SetExit): void {
  const names = STORIES.map(({ name }) => name);
  program
    .command('tour')
    .description('see what Valise does: four stories with real processes, in under a minute')
    .addOption(
      new Option('--story <name>', 'tell only this one; may be given several times')
        .choices(names)
        .default([])
        .argParser((name: string, before: readonly string[]) => {
          if (!names.includes(name)) throw new InvalidArgumentError(`Stories are: ${names.join(', ')}.`);
          return [...before, name];
        }),
    )
    .option('--slow', 'pause after each step, to read along')
    .option('--json', 'one JSON object per line: stories, steps, events and claims, then a summary')
    .option('--store <url>', 'where state is kept (default: SQLite in a temporary folder)')
    .option('--console', 'play the stories in a page on this machine, with buttons to kill and restart')
    .option('--no-browser', 'with --console: only print the link')
    // The tour uses this option to start a client in its own process.
    .addOption(new Option('--as-client').hideHelp())
    .addHelpText(
      'after',
      `
Ends with 0 only if every claim held. On a terminal you answer the questions; elsewhere the tour answers them itself.

Examples:
  valise tour
  valise tour --story bug --slow
  valise tour --console`,
    )
    .action(async ({ asClient, ...options }: TourOptions & { readonly asClient?: boolean }) => {
      if (asClient) await beClient();
      else if (options.console) {
        needPackages('The tour', packagesFor(options));
        await tourConsole(options);
      } else {
        needPackages('The tour', packagesFor(options));
        // Set in advance for a reader that closes the output early: it has not seen whether all claims held.
        process.exitCode = EXIT.failed;
        exit((await playTour(options)) ? EXIT.ok : EXIT.failed);
      }
    });
}

/**
 * Returns the packages that the tour needs. Its clients and servers use v2, one story signs in, and Node includes SQLite
 * from 22.13 on.
 */
function packagesFor({ story, store }: TourOptions): string[] {
  const signsIn = story.length === 0 || story.includes('resume');
  return [
    SDK_PACKAGES.client.v2,
    SDK_PACKAGES.server.v2,
    '@modelcontextprotocol/node',
    'zod',
    ...(signsIn ? ['oidc-provider'] : []),
    ...((signsIn || store === undefined) && !isBuiltin('node:sqlite') ? ['better-sqlite3'] : []),
  ];
}
