import type { Command } from 'commander';
import type { Continued, PendingRound } from '../../client/index.ts';
import { ValiseError } from '../../errors.ts';
import { connectTo, openFor } from '../connect.ts';
import { EXIT, type SetExit } from '../exit.ts';
import { answerOption, type ConnectOptions, connectOptions, storeOption } from '../options.ts';
import { print, printJson, printTable, when } from '../output.ts';
import { isLeftOpen, pendingIn, tellPending } from '../pending.ts';
import { errorBody, printResult } from './call.ts';

type StoreOptions = Pick<ConnectOptions, 'store' | 'principal' | 'json'>;

/** `valise pending [list|answer|drop]`: calls that wait for somebody's answer. */
export function pendingCommand(program: Command, exit: SetExit): void {
  const pending = program
    .command('pending')
    .description('list, answer or drop calls that wait for an answer')
    .addHelpText(
      'after',
      '\nExamples:\n  valise pending\n  valise pending answer Xb3… --answer resolution=Fixed',
    );
  ofStore(pending.command('list', { isDefault: true }).description('list the calls that wait')).action(
    (options: StoreOptions) => list(options),
  );
  answerOption(
    connectOptions(
      pending
        .command('answer')
        .description(
          'answer what was asked, and go on with the call; without --answer, on a terminal, it asks',
        )
        .argument('<id>', 'which one, as the list shows it')
        .argument('[target]', 'where the server is now, where that has changed'),
    ),
  ).action(async (id: string, target: string | undefined, options: ConnectOptions) =>
    exit(await answer(id, target, options)),
  );
  ofStore(
    pending.command('drop').description('forget a call; the server never hears of it again').argument('<id>'),
  ).action(async (id: string, options: StoreOptions) => exit(await drop(id, options)));
}

function ofStore(command: Command): Command {
  return storeOption(command)
    .option('--principal <id>', 'whose calls are meant')
    .option('--json', 'print as JSON on one line');
}

async function list(options: StoreOptions): Promise<void> {
  const rounds = await rest(options);
  if (options.json) printJson({ pending: rounds });
  else {
    printTable(
      ['ID', 'SINCE', 'SERVER', 'CALL', 'QUESTION'],
      rounds.map((round) => [
        round.id,
        when(round.since.getTime()),
        round.server,
        callName(round),
        question(round),
      ]),
      'Nothing waits for an answer.',
    );
  }
}

async function rest(options: StoreOptions): Promise<readonly PendingRound[]> {
  const valise = await openFor(options);
  try {
    return await valise.pending.list();
  } finally {
    await valise.close();
  }
}

function callName({ call }: PendingRound): string {
  return String(call?.params?.['name'] ?? call?.params?.['uri'] ?? call?.method ?? '-');
}

function question({ questions }: PendingRound): string {
  return questions.map(({ params, method }) => String(params?.['message'] ?? method)).join(' / ');
}

async function answer(id: string, given: string | undefined, options: ConnectOptions): Promise<number> {
  const round = (await rest(options)).find((each) => each.id === id);
  if (!round)
    throw new ValiseError('not-pending', `Nothing waits under the id ${id}.`, {
      next: 'See what does: valise pending',
    });
  const target = given ?? targetOf(round);
  try {
    const connected = await connectTo(target, options);
    try {
      let next: Continued = await connected.valise.pending.answer(id);
      // The same answers may serve the next question too.
      while (!next.done) next = await connected.valise.pending.answer(id);
      if (options.json) printJson(next.result);
      else printResult(next.result);
      return next.result['isError'] === true ? EXIT.failed : EXIT.ok;
    } catch (error) {
      if (!isLeftOpen(error)) throw error;
      return tellPending(await pendingIn(error, connected.valise.pending), options);
    } finally {
      await connected.close();
    }
  } catch (error) {
    if (!options.json) throw error;
    printJson({ error: errorBody(error) });
    return EXIT.failed;
  }
}

/** The target as a command line names it. */
function targetOf({ server }: PendingRound): string {
  if (!server.startsWith('stdio:')) return server;
  const words = JSON.parse(server.slice('stdio:'.length)) as string[];
  return `stdio:${words
    .slice(0, -1)
    .map((word) => `'${word.replaceAll("'", "'\\''")}'`)
    .join(' ')}`;
}

async function drop(id: string, options: StoreOptions): Promise<number> {
  const valise = await openFor(options);
  try {
    const dropped = await valise.pending.drop(id);
    if (options.json) printJson({ dropped });
    else print(dropped ? 'dropped' : `Nothing waits under the id ${id}.`);
    return dropped ? EXIT.ok : EXIT.failed;
  } finally {
    await valise.close();
  }
}
