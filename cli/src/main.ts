import { Command, CommanderError, Help, type Option } from 'commander';
import pkg from '../package.json' with { type: 'json' };
import { callCommand } from './commands/call.ts';
import { clusterCommand } from './commands/cluster.ts';
import { completionCommand } from './commands/completion.ts';
import { connectCommand } from './commands/connect.ts';
import { consoleCommand } from './commands/console.ts';
import { doctorCommand } from './commands/doctor.ts';
import { exampleCommand } from './commands/example.ts';
import { jarCommand } from './commands/jar.ts';
import { keysCommand } from './commands/keys.ts';
import { listCommand } from './commands/list.ts';
import { pendingCommand } from './commands/pending.ts';
import { promptCommand } from './commands/prompt.ts';
import { readCommand } from './commands/read.ts';
import { sessionsCommand } from './commands/sessions.ts';
import { statusCommand } from './commands/status.ts';
import { storeCommand } from './commands/store.ts';
import { tokenCommand } from './commands/token.ts';
import { tourCommand } from './commands/tour.ts';
import { completeCommand } from './completion/complete.ts';
import { addExamples, FIRST_STEPS } from './options/help-examples.ts';
import { EXIT, errorBody, exitCodeOf, explain, type SetExit } from './output/exit.ts';
import { escapeConsole, print, printJson, remark } from './output/output.ts';

const COMMANDS = [
  tourCommand,
  exampleCommand,
  clusterCommand,
  callCommand,
  listCommand,
  readCommand,
  promptCommand,
  connectCommand,
  consoleCommand,
  jarCommand,
  sessionsCommand,
  pendingCommand,
  statusCommand,
  storeCommand,
  keysCommand,
  tokenCommand,
  doctorCommand,
  completionCommand,
  completeCommand,
];

/** Creates all commands with their help. */
export function makeProgram(exit: SetExit): Command {
  const program = new Command('valise')
    .configureOutput({
      writeErr: (text) => remark(text.replace(/\n$/, '')),
      outputError: (text, write) => write(inOurName(text)),
    })
    .configureHelp({ optionDescription: withoutEmptyDefault })
    .description('The state layer for the Model Context Protocol: carry it, seal it, resume it.')
    .version(pkg.version)
    .addHelpText(
      'after',
      `${FIRST_STEPS}\n\nExit codes: 0 done, 1 failed, 2 the command line was not understood, 3 the server waits for an answer (valise pending).`,
    );
  for (const command of COMMANDS) command(program, exit);
  program
    .command('version')
    .description('print the version')
    .addHelpText('after', '\nExample:\n  valise version')
    .action(() => print(pkg.version));
  nameHelp(program, 'valise');
  addExamples(program);
  return program;
}

/** Replaces commander's error prefix with the prefix of all Valise messages. */
function inOurName(text: string): string {
  return text.replace(/^error: /, 'valise: ');
}

/** Omits "(default: [])" and "(default: {})", which say nothing. */
function withoutEmptyDefault(this: Help, option: Option): string {
  const { defaultValue } = option;
  const isEmpty =
    typeof defaultValue === 'object' && defaultValue !== null && Object.keys(defaultValue).length === 0;
  const shown = isEmpty ? Object.assign(Object.create(option), { defaultValue: undefined }) : option;
  return Help.prototype.optionDescription.call(this, shown as Option);
}

/** Prints a pointer to the help after a usage error: a whole page of help would hide the error. */
function nameHelp(command: Command, path: string): void {
  command.exitOverride().showHelpAfterError(`For its options and examples: ${path} --help`);
  const names = command.commands.map((part) => part.name());
  for (const part of command.commands) {
    nameHelp(part, `${path} ${part.name()}`);
    // `list` is the default subcommand, so it also runs for a misspelled one.
    if (part.name() === 'list' && command.parent) nameOthers(part, `${path} has: ${names.join(', ')}.`);
  }
}

function forEach(command: Command, work: (command: Command) => void): void {
  work(command);
  for (const part of command.commands) forEach(part, work);
}

function nameOthers(command: Command, others: string): void {
  command.configureOutput({
    outputError: (text, write) =>
      write(`${inOurName(text)}${/too many arguments/.test(text) ? `${others}\n` : ''}`),
  });
}

/** Treats an empty variable as unset, like other programs. */
function unsetEmpty(env: NodeJS.ProcessEnv): void {
  for (const [name, value] of Object.entries(env))
    if (name.startsWith('VALISE_') && value?.trim() === '') delete env[name];
}

/** Runs the command line and returns the exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  unsetEmpty(process.env);
  escapeConsole();
  let code: number = EXIT.ok;
  const program = makeProgram((exit) => {
    code = exit;
  });
  const named = program.commands.find((command) => command.name() === argv[0]);
  // The standard output of `connect` belongs to the host.
  const isJson = argv.includes('--json') && named?.name() !== 'connect';
  // The error is reported once, on stdout.
  if (isJson) forEach(program, (command) => command.configureOutput({ writeErr: () => {} }));
  try {
    await program.parseAsync([...argv], { from: 'user' });
    return code;
  } catch (error) {
    // Commander also throws for `--help`, after it has printed the help.
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT.ok;
    const isUsage = error instanceof CommanderError;
    if (isJson) printJson({ error: errorBody(error) });
    else if (!isUsage) remark(`valise: ${explain(error)}`);
    return isUsage ? EXIT.usage : exitCodeOf(error);
  }
}
