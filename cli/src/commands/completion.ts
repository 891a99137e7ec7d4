import { Argument, type Command } from 'commander';
import { COMPLETE, isCompleted } from '../completion/complete.ts';
import { print } from '../output/output.ts';

/** `valise completion SHELL`: prints the script with which a shell completes commands, options and values from the store. */
export function completionCommand(program: Command): void {
  program
    .command('completion')
    .description('print completions for a shell')
    .addArgument(new Argument('<shell>', 'which one').choices(Object.keys(SHELLS)))
    .addHelpText(
      'after',
      '\nExamples:\n  valise completion bash >> ~/.bashrc\n  valise completion zsh > ~/.zfunc/_valise',
    )
    .action((shell: string) => print((SHELLS[shell] as (commands: Commands) => string)(commandsOf(program))));
}

/** The words that may follow a command. */
interface Choices {
  /** Subcommands, values of the first argument, options. */
  readonly words: readonly string[];
  /** The values of options that take one; none if the value is arbitrary, such as a file. */
  readonly values: ReadonlyMap<string, readonly string[]>;
  /** Whether the store has values for an argument. */
  readonly isKnown: boolean;
}

/** Keyed by the words of the command; the empty key is `valise` itself. */
type Commands = ReadonlyMap<string, Choices>;

function commandsOf(program: Command): Commands {
  const found = new Map<string, Choices>();
  const visit = (command: Command, path: string): void => {
    const shown = command.options.filter(({ hidden }) => !hidden);
    const options = shown.flatMap(({ long }) => (long ? [long] : []));
    const choices = command.registeredArguments[0]?.argChoices ?? [];
    const valued = shown.filter(({ required, optional }) => required || optional);
    found.set(path, {
      words: [...shownIn(command).map((sub) => sub.name()), ...choices, ...options, '--help'],
      isKnown: [command, ...shownIn(command).filter((sub) => sub.name() === 'list' && command.parent)].some(
        (each) => each.registeredArguments.some(isCompleted),
      ),
      values: new Map(
        valued.flatMap(({ long, short, argChoices = [] }) =>
          [long, short].flatMap((name) => (name ? [[name, argChoices] as const] : [])),
        ),
      ),
    });
    for (const sub of shownIn(command)) visit(sub, path === '' ? sub.name() : `${path} ${sub.name()}`);
  };
  visit(program, '');
  return found;
}

function shownIn(command: Command): readonly Command[] {
  return command.commands.filter((sub) => sub.name() !== COMPLETE);
}

const SHELLS: Readonly<Record<string, (commands: Commands) => string>> = { bash, zsh, fish };

function bash(commands: Commands): string {
  const own = commands.get('') as Choices;
  // The longest path comes first, because the first match wins.
  const cases = [...commands].filter(([path]) => path !== '').reverse();
  const known = cases.filter(([, { isKnown }]) => isKnown).map(([path]) => `"${path} "*`);
  // Some values in the store come from servers, so they must never be expanded, as `compgen -W` would do.
  return `COMP_WORDBREAKS=\${COMP_WORDBREAKS//:}
_valise() {
  local line="\${COMP_WORDS[*]:1:COMP_CWORD-1}" before="\${COMP_WORDS[COMP_CWORD-1]}" words known
  case "$line " in
${cases.map(([path, choices]) => `    "${path} "*) ${bashWords(choices)} ;;`).join('\n')}
    *) ${bashWords(own)} ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
  case "$line " in
    ${known.join('|')})
      [[ "\${COMP_WORDS[COMP_CWORD]}" == -* ]] || while IFS= read -r known; do
        COMPREPLY+=("$(printf %q "$known")")
      done < <("\${COMP_WORDS[0]}" ${COMPLETE} -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2> /dev/null) ;;
  esac
}
complete -o default -F _valise valise`;
}

function bashWords({ words, values }: Choices): string {
  const plain = `words="${words.join(' ')}"`;
  if (values.size === 0) return plain;
  const cases = [...values].map(([option, choices]) => `${option}) words="${choices.join(' ')}" ;;`);
  return `case "$before" in ${cases.join(' ')} *) ${plain} ;; esac`;
}

function zsh(commands: Commands): string {
  return `#compdef valise\nautoload -U +X bashcompinit && bashcompinit\n${bash(commands)}`;
}

function fish(commands: Commands): string {
  return [...commands]
    .flatMap(([path, { words, values, isKnown }]) => {
      const seen = path.split(' ').filter((word) => word !== '');
      const when =
        seen.length === 0
          ? '__fish_use_subcommand'
          : seen.map((word) => `__fish_seen_subcommand_from ${word}`).join('; and ');
      const line = `complete -c valise -f -n '${when}'`;
      const options = [...values]
        .filter(([option, choices]) => option.startsWith('--') && choices.length > 0)
        .map(([option, choices]) => `${line} -l ${option.slice(2)} -x -a '${choices.join(' ')}'`);
      const known = `${line} -a '(valise ${COMPLETE} -- (commandline -opc)[2..-1] (commandline -ct))'`;
      return [`${line} -a '${words.join(' ')}'`, ...(isKnown ? [known] : []), ...options];
    })
    .join('\n');
}
