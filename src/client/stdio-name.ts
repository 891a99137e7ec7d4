import { accessSync, constants, existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { basename, delimiter, dirname, extname, isAbsolute, join, resolve, sep } from 'node:path';
import { isObject } from '../json.ts';
import { sha256 } from '../sha256.ts';
import { registryEnv, searchPath } from './deciding-env.ts';
import { asksRegistry, type Interpreter, interpreterOf, isLauncher, runsOthers } from './interpreters.ts';
import type { Target } from './target.ts';

type StdioTarget = Extract<Target, { readonly kind: 'stdio' }>;
/** Where a program is looked for. */
type Place = Pick<StdioTarget, 'cwd' | 'env'>;

/** The file that is the server, as far as can be told, and what it is given. */
interface Served {
  /** As the command has it: not through links. */
  readonly path: string;
  readonly rest: readonly string[];
}

const SCRIPT = /^\.[cm]?[jt]sx?$/;

/**
 * A stdio server's name: the path of the server's file, absolute and through links, of an interpreter the script's;
 * after a `#` the package it belongs to and, on demand, its digest. Where the file may run another program that the
 * arguments choose, a digest of these follows, and where no file can be told, the whole command is the name, arguments
 * as a digest since they may be secret: two programs never share a name. In that digest are the variables too that may
 * decide what is run. They are not in the name of a file that can be told, also where `NODE_OPTIONS` loads something
 * before it: that is the same server with another tracer, or more memory.
 */
export function stdioName(target: StdioTarget, digest: boolean | undefined): string {
  const served = servedBy(target);
  if (served === undefined) return commandName(target);
  const file = realpathSync(served.path);
  const owner = packageOf(file);
  const marks = [owner, ...(digest ? [digestOf(file)] : [])].filter((mark) => mark !== undefined);
  const doubt = mayRunAnother(served, file, owner, target) ? ` +${argumentsDigest(target)}` : '';
  // A bridge is another server for each address that it leads to.
  const at = addresses(target.args).map((address) => ` ${address}`);
  return [escaped(file), ...marks.map((mark) => `#${escaped(mark)}`), ...at, doubt].join('');
}

/** Blanks and `#` stand between the parts of a name, so that no part may have one. */
function escaped(part: string): string {
  return part.replace(/[%#\s]/g, encodeURIComponent);
}

function servedBy(target: StdioTarget): Served | undefined {
  const { command, args, cwd } = target;
  const program = programName(command);
  const given = interpreterOf(program);
  if (given) return scriptOf(given, args, cwd);
  const path = isLauncher(program) ? undefined : findProgram(command, target);
  if (path === undefined) return undefined;
  const linked = interpreterOf(programName(realpathSync(path)));
  return linked ? scriptOf(linked, args, cwd) : { path, rest: args };
}

function programName(path: string): string {
  return basename(path)
    .replace(/\.(exe|cmd|bat)$/i, '')
    .toLowerCase();
}

/** Undefined also where an option stands before the script that may be about something else. */
function scriptOf(
  { verb, alone, paired }: Interpreter,
  args: readonly string[],
  cwd: string,
): Served | undefined {
  for (let at = args[0] !== undefined && args[0] === verb ? 1 : 0; at < args.length; at++) {
    const arg = args[at] as string;
    if (!arg.startsWith('-')) {
      const path = existing(resolve(cwd, arg));
      return path === undefined ? undefined : { path, rest: args.slice(at + 1) };
    }
    if (alone?.test(arg)) continue;
    if (!paired?.test(`${arg} ${args[++at]}`)) return undefined;
  }
  return undefined;
}

function existing(path: string): string | undefined {
  const found = ['', '.js', '.mjs', '.cjs', '.ts', '.py'].find((ending) => existsSync(path + ending));
  return found !== undefined && isFile(path + found) ? path + found : undefined;
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

function findProgram(command: string, place: Place): string | undefined {
  if (isAbsolute(command) || command.includes('/') || command.includes(sep))
    return existing(resolve(place.cwd, command));
  const endings = process.platform === 'win32' ? ['.exe', '.cmd', '.bat', ''] : [''];
  for (const folder of searched(place)) {
    for (const ending of endings) {
      const path = join(folder, command + ending);
      if (isExecutable(path)) return path;
    }
  }
  return undefined;
}

function searched({ cwd, env }: Place): string[] {
  return searchPath(env)
    .split(delimiter)
    .map((folder) => (isAbsolute(folder) ? folder : resolve(cwd, folder)));
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return isFile(path);
  } catch {
    return false;
  }
}

/** Whether it is not certain that the file is the server: what it is given may choose the one that it runs. */
function mayRunAnother(
  { path, rest }: Served,
  file: string,
  owner: string | undefined,
  place: Place,
): boolean {
  const script = programName(file).replace(extname(file), '');
  if (runsOthers(script) || runsOthers(owner?.replace(/@[^@/]*$/, '') ?? '')) return true;
  if (isTool(path, place) && rest.some((arg) => !arg.startsWith('-'))) return true;
  return rest.some((arg) => wordsOf(arg).some((word) => mayBeProgram(word, place)));
}

/** A program for everybody's use, as wrappers are, and not one that stands with its project. */
function isTool(path: string, place: Place): boolean {
  const folder = dirname(path);
  if (searched(place).includes(folder)) return true;
  return /^(s?bin|\.bin|scripts)$/i.test(basename(folder)) && !SCRIPT.test(extname(path));
}

function wordsOf(arg: string): string[] {
  return [arg, ...arg.split(/[\s=]+/)].filter((word) => word !== '' && !word.startsWith('-'));
}

function mayBeProgram(word: string, place: Place): boolean {
  if (runsOthers(programName(word)) || isNear(word, place.cwd)) return true;
  if (isAbsolute(word) && existsSync(word)) return true;
  return !word.includes('/') && findProgram(word, place) !== undefined;
}

/** Something else in another folder. */
function isNear(word: string, cwd: string): boolean {
  return !isAbsolute(word) && [word, join('node_modules', word)].some((at) => existsSync(join(cwd, at)));
}

/** `name@version` of the package that a script belongs to. */
function packageOf(file: string): string | undefined {
  if (!SCRIPT.test(extname(file)) && !file.includes(`${sep}node_modules${sep}`)) return undefined;
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    const manifest = readManifest(join(folder, 'package.json'));
    if (manifest !== undefined) return manifest;
    if (folder === dirname(folder)) return undefined;
  }
}

function readManifest(path: string): string | undefined {
  try {
    const manifest: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (!isObject(manifest) || typeof manifest.name !== 'string') return undefined;
    return typeof manifest.version === 'string' ? `${manifest.name}@${manifest.version}` : manifest.name;
  } catch {
    return undefined;
  }
}

function digestOf(file: string): string | undefined {
  try {
    return `sha256-${sha256(readFileSync(file))}`;
  } catch {
    return undefined;
  }
}

function addresses(args: readonly string[]): string[] {
  return args.flatMap((arg) => {
    const match = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#]*@)?([^/?#]+)/i.exec(arg);
    return match ? [(match[1] as string).toLowerCase()] : [];
  });
}

function commandName(target: StdioTarget): string {
  const shown = target.args.find((arg) => !arg.startsWith('-') && !/[=:\s]|^\//.test(arg));
  return `${programName(target.command)}${shown === undefined ? '' : ` ${shown}`} +${argumentsDigest(target)}`;
}

function argumentsDigest(target: StdioTarget): string {
  const { command, args, cwd, env } = target;
  const anywhere = asksRegistry(programName(command)) && !isOfFolder(args, cwd);
  // A program that PATH finds may be one with modules of its own, as in a virtual environment.
  const where = anywhere ? [] : [cwd, findProgram(command, target) ?? command];
  // What comes from a registry is found by no PATH, and by no variable, unless a shell reads the command.
  const by = Object.entries(env && anywhere && !args.some(isForShell) ? registryEnv(env) : (env ?? {}));
  // Lists in a list, so that an argument cannot be taken for a folder.
  return sha256(JSON.stringify([command, args, where, by])).slice(0, 16);
}

/** Says in a folder, or in one below it, which registry is asked, or what is run in its place. */
const SETTINGS = ['.npmrc', 'uv.toml', 'pyproject.toml', ...['yml', 'yaml'].flatMap(composeFiles)];

function composeFiles(ending: string): string[] {
  return [`compose.${ending}`, `docker-compose.${ending}`];
}

/** Whether the folder that a launcher is started in decides what it runs. */
function isOfFolder(args: readonly string[], cwd: string): boolean {
  const words = args.flatMap(wordsOf);
  if (words.some((word) => isNear(word, cwd))) return true;
  for (let folder = cwd; ; folder = dirname(folder)) {
    const here = [...SETTINGS, ...words.map((word) => join('node_modules', '.bin', word))];
    if (here.some((name) => existsSync(join(folder, name)))) return true;
    if (folder === dirname(folder)) return false;
  }
}

function isForShell(arg: string): boolean {
  return /^(-[a-z]*c|--call(=.*)?)$/.test(arg);
}
