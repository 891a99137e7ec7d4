import { readFileSync } from 'node:fs';
import { type Command, Option } from 'commander';
import type { ClientValise, JarEntry, JarFilter } from 'mcp-valise/client';
import { openFor, openKept } from '../connection/connect.ts';
import { parseTarget } from '../connection/target.ts';
import { CommandError } from '../errors.ts';
import type { KeyOptions } from '../options/key-source.ts';
import { storeOption } from '../options/options.ts';
import { identityOf } from '../output/client-events.ts';
import { EXIT, type SetExit } from '../output/exit.ts';
import { clean, print, printJson, printTable, remark, size, when } from '../output/output.ts';

interface JarOptions extends KeyOptions {
  readonly store?: string;
  readonly principal?: string;
  readonly scope?: 'session' | 'server';
  readonly key?: string;
  readonly json?: boolean;
  readonly yes?: boolean;
}

/** `valise jar [list|show|clear|export|import]`: the state that servers have set in this client. */
export function jarCommand(program: Command, exit: SetExit): void {
  const jar = program
    .command('jar')
    .description('look into the state that servers have set, and clear it')
    .addHelpText(
      'after',
      `
Examples:
  valise jar
  valise jar show shop.example.com
  valise jar clear shop.example.com --scope session`,
    );
  sub(jar, 'list', 'list what is kept, without values', { isDefault: true }).action(
    (server: string | undefined, options: JarOptions) =>
      withJar(options, async (valise) =>
        printEntries(valise.jar.list(filterOf(server, options)), server, options),
      ),
  );
  sub(jar, 'show', 'show the values of one server', { server: '<server>' }).action(
    (server: string, options: JarOptions) =>
      withJar(options, async (valise) => {
        const entries = valise.jar.list({ ...filterOf(server, options), values: true });
        if (options.json) printJson({ entries });
        else if (entries.length === 0) print(nothing(server, options));
        for (const { scope, key, value } of options.json ? [] : entries)
          print(clean(`${scope} ${JSON.stringify(key)} ${JSON.stringify(value)}`));
        exit(entries.length > 0 ? EXIT.ok : EXIT.failed);
      }),
  );
  sub(jar, 'clear', 'forget state: all of it, one server, one scope, one key')
    .option('--yes', 'do not ask')
    .action((server: string | undefined, options: JarOptions) =>
      withJar(options, async (valise) => {
        if (!(await mayClear(valise, server, options))) {
          exit(EXIT.failed);
          return;
        }
        const cleared = await valise.jar.clear(filterOf(server, options));
        if (options.json) printJson({ cleared });
        else print(cleared === 0 ? nothing(server, options) : `${cleared} cleared`);
      }),
    );
  sub(jar, 'export', 'print everything with its values as JSON').action(
    (server: string | undefined, options: JarOptions) =>
      withJar(options, async (valise) => printJson(valise.jar.export(filterOf(server, options)))),
  );
  storeOption(
    jar
      .command('import')
      .description('import the output of export; newer entries that are already stored stay')
      .argument('<file>', 'the file'),
  )
    .option('--principal <id>', 'whose state it becomes')
    .option('--json', 'print as JSON on one line')
    .action(async (file: string, options: JarOptions) => exit(await importFile(file, options)));
}

/** Imports all entries that are accepted, and names the refused ones. */
async function importFile(file: string, options: JarOptions): Promise<number> {
  const exported = readExported(file);
  const valise = await openFor(options);
  try {
    const { imported, refused } = await valise.jar.import(exported);
    if (options.json) printJson({ imported, refused });
    else print(`${imported} imported`);
    for (const { server = '?', key = '?', detail } of options.json ? [] : refused)
      remark(`valise: ${clean(`${JSON.stringify(key)} of ${server} was refused: ${detail}`)}`);
    return refused.length === 0 ? EXIT.ok : EXIT.failed;
  } finally {
    await valise.close();
  }
}

function readExported(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch (cause) {
    // The parser's message quotes the text, which may contain secrets.
    const isRead = cause instanceof SyntaxError;
    throw new CommandError('bad-export', `${file} ${isRead ? 'is not JSON' : 'cannot be read'}.`, {
      next: 'Give a file that was written by: valise jar export > FILE',
      ...(!isRead && { cause }),
    });
  }
}

function sub(
  jar: Command,
  name: string,
  description: string,
  { server = '[server]', isDefault = false }: { readonly server?: string; readonly isDefault?: boolean } = {},
): Command {
  return storeOption(
    jar
      .command(name, { isDefault })
      .description(description)
      .argument(server, "name, URL or 'stdio:COMMAND' of a server"),
  )
    .option('--principal <id>', 'whose state is meant')
    .addOption(new Option('--scope <scope>', 'only this scope').choices(['session', 'server']))
    .option('--key <name>', 'only this key')
    .option('--json', 'print as JSON on one line');
}

async function withJar(options: JarOptions, work: (valise: ClientValise) => Promise<void>): Promise<void> {
  const valise = await openKept(options);
  try {
    await valise.jar.refresh();
    await work(valise);
  } finally {
    await valise.close();
  }
}

/** Asks a person to confirm, because clearing cannot be undone. A program must pass `--yes`, or name a server or a scope. */
async function mayClear(
  { jar }: ClientValise,
  server: string | undefined,
  options: JarOptions,
): Promise<boolean> {
  if (options.yes) return true;
  if (process.stdin.isTTY === true && process.stderr.isTTY === true) {
    const entries = jar.list(filterOf(server, options));
    if (entries.length === 0) return true;
    const servers = [...new Set(entries.map((entry) => entry.server))];
    const whose = servers.length === 1 ? servers[0] : `${servers.length} servers`;
    const { agreed } = await import('../ask/terminal.ts');
    return agreed(`Forget ${entries.length} ${entries.length === 1 ? 'key' : 'keys'} of ${whose}?`);
  }
  if (server !== undefined || options.scope !== undefined) return true;
  throw new CommandError('not-confirmed', 'This would forget the state of all servers.', {
    next: 'Add --yes, or name a server.',
  });
}

function filterOf(server: string | undefined, { scope, key }: JarOptions): JarFilter {
  return {
    ...(server !== undefined && { server: server.startsWith('stdio:') ? nameOf(server) : server }),
    ...(scope !== undefined && { scope }),
    ...(key !== undefined && { key }),
  };
}

/** Returns the name under which state of a target is stored; a command is stored under its server identity. */
function nameOf(target: string): string {
  return identityOf(parseTarget(target)).name;
}

function nothing(server: string | undefined, { scope, key }: JarOptions): string {
  const asked = [
    ...(key === undefined ? [] : [` under the key ${clean(key)}`]),
    ...(scope === undefined ? [] : [` in ${scope} scope`]),
    ...(server === undefined ? [] : [` for ${clean(server)}`]),
  ];
  return asked.length === 0 ? 'The jar is empty.' : `Nothing is kept${asked.join('')}; see valise jar.`;
}

function printEntries(entries: readonly JarEntry[], server: string | undefined, options: JarOptions): void {
  if (options.json) {
    printJson({ entries });
    return;
  }
  printTable(
    ['SERVER', 'SCOPE', 'KEY', 'SIZE', 'SET', 'EXPIRES'],
    entries.map((entry) => [
      entry.server,
      entry.scope,
      entry.key,
      size(entry.size),
      when(entry.setAt.getTime()),
      when(entry.expiresAt.getTime()),
    ]),
    nothing(server, options),
  );
}
