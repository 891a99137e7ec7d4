import type { Command } from 'commander';
import type {} from 'mcp-valise/client';
import { type KeptSession, redactUrls } from 'mcp-valise/internal';
import { connectTo, openKept } from '../connection/connect.ts';
import { nameOfKept } from '../connection/target.ts';
import { CommandError } from '../errors.ts';
import { byId } from '../options/id-prefix.ts';
import { type ConnectOptions, connectOptions } from '../options/options.ts';
import { clean, print, printJson, printTable, when } from '../output/output.ts';

/** `valise sessions [list|show|delete] [TARGET]`: data-layer sessions stored here, and those that a server knows. */
export function sessionsCommand(program: Command): void {
  const sessions = program
    .command('sessions')
    .description('list, show and delete data-layer sessions')
    .addHelpText(
      'after',
      '\nExamples:\n  valise sessions\n  valise sessions list https://notes.example.com/mcp\n  valise sessions delete diary https://notes.example.com/mcp',
    );
  connectOptions(
    sessions
      .command('list', { isDefault: true })
      .description(
        'list the sessions that are kept; with a target, those with that server, also what only it knows',
      )
      .argument('[target]', "a URL, or 'stdio:COMMAND'"),
  ).action((target: string | undefined, options: ConnectOptions) =>
    target === undefined ? listKept(options) : listAt(target, options),
  );
  connectOptions(
    sessions
      .command('show')
      .description('show one session')
      .argument('<session>', 'its label, its id, or how its id begins'),
  ).action(async (session: string, options: ConnectOptions) => show(await find(session, options), options));
  connectOptions(
    sessions
      .command('delete')
      .description('end a session: at its server if a target is given, otherwise only here')
      .argument('<session>', 'its label, its id, or how its id begins')
      .argument('[target]', "a URL, or 'stdio:COMMAND'"),
  ).action(remove);
}

async function kept(options: ConnectOptions): Promise<readonly KeptSession[]> {
  const valise = await openKept(options);
  try {
    return await valise.sessions.kept();
  } finally {
    await valise.close();
  }
}

async function listKept(options: ConnectOptions): Promise<void> {
  const sessions = await kept(options);
  if (options.json) printJson({ sessions: sessions.map(shown) });
  else {
    printTable(
      ['SESSION', 'LABEL', 'SERVER', 'USED', 'EXPIRES'],
      sessions.map((each) => [
        short(each.id),
        each.label ?? '-',
        nameOfKept(each.target),
        when(each.usedAt.getTime()),
        expiry(each),
      ]),
      'No sessions are kept.',
      { idColumn: 0 },
    );
  }
}

async function listAt(target: string, options: ConnectOptions): Promise<void> {
  const connected = await connectTo(target, options);
  try {
    const sessions = await connected.valise.sessions(connected.client).list();
    if (options.json) printJson({ sessions });
    else {
      printTable(
        ['SESSION', 'LABEL', 'KEPT HERE', 'LISTED THERE', 'EXPIRES'],
        sessions.map((each) => [
          short(each.id),
          each.label ?? '-',
          each.isKept ? 'yes' : 'no',
          each.isListed ? 'yes' : 'no',
          expiry(each),
        ]),
        'No sessions with this server are kept, and it lists none for you.',
        { idColumn: 0 },
      );
    }
  } finally {
    await connected.close();
  }
}

function show(session: KeptSession, options: ConnectOptions): void {
  if (options.json) {
    printJson(shown(session));
    return;
  }
  print(`session  ${clean(session.id)}`);
  print(`label    ${clean(session.label ?? '-')}`);
  print(`server   ${clean(nameOfKept(session.target))}`);
  print(`used     ${when(session.usedAt.getTime())}`);
  print(`expires  ${expiry(session)}`);
}

async function find(name: string, options: ConnectOptions): Promise<KeptSession> {
  const found = named(name, await kept(options));
  if (found) return found;
  throw new CommandError('no-such-session', `No session "${name}" is kept here.`, {
    next: 'See which are: valise sessions. What only a server knows, it lists: valise sessions list TARGET',
  });
}

async function remove(name: string, target: string | undefined, options: ConnectOptions): Promise<void> {
  const { id, outcome } =
    target === undefined ? await forget(name, options) : await end(name, target, options);
  if (options.json) printJson({ deleted: id });
  else print(outcome);
}

interface Removed {
  readonly id: string;
  readonly outcome: string;
}

async function forget(name: string, options: ConnectOptions): Promise<Removed> {
  const { id } = await find(name, options);
  const valise = await openKept(options);
  await valise.sessions.forget(id).finally(() => valise.close());
  return { id, outcome: 'forgotten here; its server still knows it' };
}

async function end(name: string, target: string, options: ConnectOptions): Promise<Removed> {
  const connected = await connectTo(target, options);
  try {
    const sessions = connected.valise.sessions(connected.client);
    // The server may know a session by its id even if it is not in the list.
    const { id } = named(name, await sessions.list()) ?? { id: name };
    if (await sessions.delete(id)) return { id, outcome: 'deleted' };
    throw new CommandError('no-such-session', `The server does not know the session "${name}".`, {
      next: 'It is no longer kept here. List the sessions: valise sessions list TARGET',
    });
  } finally {
    await connected.close();
  }
}

/** Returns the session with this label, id or id prefix. */
function named<Listed extends { readonly id: string; readonly label: string | undefined }>(
  name: string,
  sessions: readonly Listed[],
): Listed | undefined {
  const labelled = sessions.find(({ label }) => label === name);
  return sessions.find(({ id }) => id === name) ?? labelled ?? byId(name, sessions);
}

/** Returns a session for printing, without the secrets in its server's URL. */
function shown(session: KeptSession): KeptSession {
  return { ...session, target: redactUrls(session.target) };
}

/** Maximum length of an id in a table. Valise's own ids are shorter; those of others may contain a whole sealed state. */
const LONGEST = 64;

function short(id: string): string {
  return id.length > LONGEST ? `${id.slice(0, LONGEST - 1)}…` : id;
}

function expiry({
  expiresAt,
  isStale,
}: {
  readonly expiresAt: Date | undefined;
  readonly isStale: boolean;
}): string {
  return `${when(expiresAt?.getTime())}${isStale ? ' (stale)' : ''}`;
}
