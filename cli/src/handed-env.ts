import { ValiseError } from 'mcp-valise/client';
import { remark } from './output.ts';
import type { CliTarget } from './target.ts';

/** Parses one `--env` value. Accepts names only, because other users can read command lines. */
export function parseEnvName(text: string): string {
  // The error does not repeat the value, which may be a secret.
  if (/^[^=\s]+$/.test(text)) return text;
  throw new ValiseError('invalid-argument', '--env takes the name of a variable, and no value.', {
    next: 'Set the variable where valise runs, and write for example --env API_TOKEN.',
  });
}

/** Adds the named variables of this process to a target that is a command. */
export function withEnv(target: CliTarget, names: readonly string[]): CliTarget {
  if (target.kind !== 'stdio' || names.length === 0) return target;
  const env = Object.fromEntries(names.map((name) => [name, readEnv(name)]));
  return { ...target, command: { ...target.command, env } };
}

function readEnv(name: string): string {
  const value = process.env[name];
  if (value !== undefined) return value;
  throw new ValiseError('invalid-argument', `The variable ${name}, which --env names, is not set.`, {
    next: 'Set it where valise runs, or leave the option out.',
  });
}

/** Reports that a server over HTTP receives no variables. */
export function tellNoEnv({ kind }: CliTarget, names: readonly string[]): void {
  if (kind === 'stdio') return;
  for (const name of names)
    remark(`valise: --env ${name} was not used: only a server that is a command is handed variables.`);
}
