import type { StdioCommand } from 'mcp-valise/client';
import { redactUrls } from 'mcp-valise/internal';
import { UsageError } from '../errors.ts';
import { remark, shellWord } from '../output/output.ts';

/** The TARGET of a command line: a URL, or `stdio:COMMAND`. */
export type CliTarget =
  | { readonly kind: 'http'; readonly url: URL }
  | { readonly kind: 'stdio'; readonly command: StdioCommand };

/** Formats a target as people would write it, without its secrets. */
export function nameOfTarget(target: CliTarget): string {
  if (target.kind === 'http') return redactUrls(target.url.href);
  const { command, args = [] } = target.command;
  return redactUrls(`stdio:${[command, ...args].join(' ')}`);
}

/** Parses a TARGET that must be a URL. */
export function parseUrl(text: string): URL {
  const target = parseTarget(text);
  if (target.kind === 'http') return target.url;
  throw new UsageError('bad-target', 'Nothing is kept of connections with a command.', {
    next: 'Give an http(s) URL.',
  });
}

/** Parses a TARGET. */
export function parseTarget(text: string): CliTarget {
  if (text.startsWith('stdio:')) {
    const [command, ...args] = splitWords(text.slice('stdio:'.length));
    if (command === undefined) {
      throw new UsageError('bad-target', 'stdio: names no command.', {
        next: "Write for example 'stdio:node server.js'.",
      });
    }
    return { kind: 'stdio', command: { command, args } };
  }
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    url = new URL('invalid:');
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new UsageError('bad-target', `"${redactUrls(text)}" is not a target.`, {
      next: `Give an http(s) URL, or 'stdio:COMMAND ARGS'.${likely(text)}`,
    });
  }
  if (url.username !== '' || url.password !== '') {
    throw new UsageError('bad-target', 'The URL says who asks, which others could read.', {
      next: "Leave it out, and give a header: -H 'Authorization: …'.",
    });
  }
  return { kind: 'http', url };
}

/** Suggests a correction if only the prefix is missing. */
function likely(text: string): string {
  if (/^[\w./-]+ [^:]*$/.test(text)) return ` Is it ${shellWord(`stdio:${text}`)}?`;
  const [, host] = /^([\w-]+(?:\.[\w-]+)*)(?::\d{1,5})?(?:\/\S*)?$/.exec(text) ?? [];
  if (host === undefined || !/[.:]|^localhost/.test(text)) return '';
  return ` Is it ${/^(localhost|[\d.]+)$/.test(host) ? 'http' : 'https'}://${text}?`;
}

/** Parses a target as a store names it: a URL, or a command with its working directory. */
export function parseKept(name: string): CliTarget {
  if (!name.startsWith('stdio:')) return parseTarget(name);
  const words = JSON.parse(name.slice('stdio:'.length)) as [string, ...string[]];
  const [command, ...args] = words.slice(0, -1) as [string, ...string[]];
  const [cwd] = [words.at(-1)].flat() as [string];
  return { kind: 'stdio', command: { command, args, cwd } };
}

/** Formats a target that a store names, without its secrets. */
export function nameOfKept(name: string): string {
  const target = name.startsWith('stdio:') ? parseKept(name) : undefined;
  return target?.kind === 'stdio' ? `${nameOfTarget(target)} (in ${target.command.cwd})` : redactUrls(name);
}

/**
 * Splits a command like a shell: blanks separate words, quotes and backslashes keep them together. There is no expansion.
 */
function splitWords(text: string): string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote: string | undefined;
  for (let at = 0; at < text.length; at++) {
    const char = text[at] as string;
    if (quote) {
      if (char === quote) quote = undefined;
      else if (char === '\\' && quote === '"' && /["\\$`]/.test(text[at + 1] ?? ''))
        word += text[++at] as string;
      else word += char;
    } else if (char === '"' || char === "'") {
      quote = char;
      word ??= '';
    } else if (char === '\\' && at + 1 < text.length) {
      word = (word ?? '') + (text[++at] as string);
    } else if (/\s/.test(char)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else {
      word = (word ?? '') + char;
    }
  }
  if (quote) throw new UsageError('bad-target', `The quote ${quote} in "${text}" is not closed.`);
  if (word !== undefined) words.push(word);
  return words;
}

/** Parses one `--env` value. Accepts names only, because other users can read command lines. */
export function parseEnvName(text: string): string {
  // The error does not repeat the value, which may be a secret.
  if (/^[^=\s]+$/.test(text)) return text;
  throw new UsageError('invalid-argument', '--env takes the name of a variable, and no value.', {
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
  throw new UsageError('invalid-argument', `The variable ${name}, which --env names, is not set.`, {
    next: 'Set it where valise runs, or leave the option out.',
  });
}

/** Reports that a server over HTTP receives no variables. */
export function tellNoEnv({ kind }: CliTarget, names: readonly string[]): void {
  if (kind === 'stdio') return;
  for (const name of names)
    remark(`valise: --env ${name} was not used: only a server that is a command is handed variables.`);
}
