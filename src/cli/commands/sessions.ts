import type { Command } from 'commander';
import type { KeptSession } from '../../client/index.ts';
import { ValiseError } from '../../errors.ts';
import { connectTo, openFor } from '../connect.ts';
import { type ConnectOptions, connectOptions } from '../options.ts';
import { print, printJson, printTable, when } from '../output.ts';

/** `valise sessions [list|show|delete] [TARGET]`: data-layer sessions that are kept here, and that a server knows. */
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
      .description('list the sessions that are kept; with a target, those that the server knows')
      .argument('[target]', "a URL, or 'stdio:COMMAND'"),
  ).action((target: string | undefined, options: ConnectOptions) =>
    target === undefined ? listKept(options) : listAt(target, options),
  );
  connectOptions(
    sessions.command('show').description('show one session').argument('<session>', 'its id or label'),
  ).action(async (session: string, options: ConnectOptions) => show(await find(session, options), options));
  connectOptions(
    sessions
      .command('delete')
      .description('end a session: at its server where a target is given, else only here')
      .argument('<session>', 'its id or label')
      .argument('[target]', "a URL, or 'stdio:COMMAND'"),
  ).action(remove);
}

async function kept(options: ConnectOptions): Promise<readonly KeptSession[]> {
  const valise = await openFor(options);
  try {
    return await valise.sessions.kept();
  } finally {
    await valise.close();
  }
}

async function listKept(options: ConnectOptions): Promise<void> {
  const sessions = await kept(options);
  if (options.json) printJson({ sessions });
  else {
    printTable(
      ['SESSION', 'LABEL', 'SERVER', 'USED', 'EXPIRES'],
      sessions.map((each) => [
        short(each.id),
        each.label ?? '-',
        each.target,
        when(each.usedAt.getTime()),
        expiry(each),
      ]),
      'No sessions are kept.',
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
        ['SESSION', 'LABEL', 'KEPT HERE', 'EXPIRES'],
        sessions.map((each) => [short(each.id), each.label ?? '-', each.isKept ? 'yes' : 'no', expiry(each)]),
        'The server knows no sessions of yours.',
      );
    }
  } finally {
    await connected.close();
  }
}

function show(session: KeptSession, options: ConnectOptions): void {
  if (options.json) {
    printJson(session);
    return;
  }
  print(`session  ${session.id}`);
  print(`label    ${session.label ?? '-'}`);
  print(`server   ${session.target}`);
  print(`used     ${when(session.usedAt.getTime())}`);
  print(`expires  ${expiry(session)}`);
}

async function find(name: string, options: ConnectOptions): Promise<KeptSession> {
  const found = (await kept(options)).find(({ id, label }) => id === name || label === name);
  if (found) return found;
  throw new ValiseError('no-such-session', `No session "${name}" is kept.`, {
    next: 'See which are: valise sessions',
  });
}

async function remove(name: string, target: string | undefined, options: ConnectOptions): Promise<void> {
  const { id } = await find(name, options);
  if (target === undefined) {
    const valise = await openFor(options);
    await valise.sessions.forget(id).finally(() => valise.close());
  } else {
    const connected = await connectTo(target, options);
    try {
      const session = await connected.valise.sessions(connected.client).resume(id);
      await session.delete();
    } finally {
      await connected.close();
    }
  }
  if (options.json) printJson({ deleted: id });
  else print(target === undefined ? 'forgotten here; its server still knows it' : 'deleted');
}

/** Ids may carry a whole sealed state; their start tells them apart. */
function short(id: string): string {
  return id.length > 24 ? `${id.slice(0, 23)}…` : id;
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
