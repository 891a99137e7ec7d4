import { Argument, type Command } from 'commander';
import { print } from '../output.ts';

/** `valise completion SHELL`: what to add to a shell so that it completes commands and options. */
export function completionCommand(program: Command): void {
  program
    .command('completion')
    .description('print completions for a shell')
    .addArgument(new Argument('<shell>', 'which one').choices(Object.keys(SHELLS)))
    .addHelpText(
      'after',
      '\nExamples:\n  valise completion bash >> ~/.bashrc\n  valise completion zsh > ~/.zfunc/_valise',
    )
    .action((shell: string) => print((SHELLS[shell] as (words: Words) => string)(wordsOf(program))));
}

/** What may follow which words: the empty key is for the command itself. */
type Words = ReadonlyMap<string, readonly string[]>;

function wordsOf(program: Command): Words {
  const words = new Map<string, string[]>();
  const visit = (command: Command, path: string): void => {
    const options = command.options.flatMap(({ long }) => (long ? [long] : []));
    const choices = command.registeredArguments[0]?.argChoices ?? [];
    words.set(path, [...command.commands.map((sub) => sub.name()), ...choices, ...options, '--help']);
    for (const sub of command.commands) visit(sub, path === '' ? sub.name() : `${path} ${sub.name()}`);
  };
  visit(program, '');
  return words;
}

const SHELLS: Readonly<Record<string, (words: Words) => string>> = { bash, zsh, fish };

function bash(words: Words): string {
  const cases = [...words].filter(([path]) => path !== '').reverse();
  return `_valise() {
  local line="\${COMP_WORDS[*]:1:COMP_CWORD-1}" words
  case "$line " in
${cases.map(([path, all]) => `    "${path} "*) words="${all.join(' ')}" ;;`).join('\n')}
    *) words="${(words.get('') ?? []).join(' ')}" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _valise valise`;
}

function zsh(words: Words): string {
  return `#compdef valise\nautoload -U +X bashcompinit && bashcompinit\n${bash(words)}`;
}

function fish(words: Words): string {
  return [...words]
    .map(([path, all]) => {
      const seen = path.split(' ').filter((word) => word !== '');
      const when =
        seen.length === 0
          ? '__fish_use_subcommand'
          : seen.map((word) => `__fish_seen_subcommand_from ${word}`).join('; and ');
      return `complete -c valise -f -n '${when}' -a '${all.join(' ')}'`;
    })
    .join('\n');
}
