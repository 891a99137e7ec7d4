import { accessSync, constants, existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { basename, delimiter, dirname, extname, isAbsolute, join, resolve, sep } from 'node:path';
import { isObject } from '../json.ts';
import { sha256 } from '../sha256.ts';
import { registryEnv, searchPath } from './deciding-env.ts';
import { asksRegistry, type Interpreter, interpreterOf, isLauncher, runsOthers } from './interpreters.ts';
import type { Target } from './target.ts';

type StdioTarget = Extract<Target, { readonly kind: 'stdio' }>;
/** Where a program is searched. */
type Place = Pick<StdioTarget, 'cwd' | 'env'>;

/** The file that is the server, as far as it can be determined, and its arguments. */
interface Served {
  /** The path as the command names it, without resolving links. */
  readonly path: string;
  readonly rest: readonly string[];
}

const SCRIPT = /^\.[cm]?[jt]sx?$/;

/**
 * Returns a stdio server's name. Two programs never share a name.
 *
 * - The name is the absolute path of the server's file with links resolved. For an interpreter, this is the script. The
 *   package that it belongs to and, on request, its digest follow after a `#`.
 * - If the arguments may make the file run another program, a digest of the arguments follows.
 * - If the file cannot be determined, the whole command is the name. Its arguments are a digest, because they may be
 *   secret. The digest includes the variables that may decide what is run.
 * - The name of a known file does not include variables, even if `NODE_OPTIONS` loads something before it: that is the same
 *   server with another tracer, or more memory.
 */
export function stdioName(target: StdioTarget, digest: boolean | undefined): string {
  const served = servedBy(target);
  if (served === undefined) return commandName(target);
  const file = realpathSync(served.path);
  const owner = packageOf(file);
  const marks = [owner, ...(digest ? [digestOf(file)] : [])].filter((mark) => mark !== undefined);
  const doubt = mayRunAnother(served, file, owner, target) ? ` +${argumentsDigest(target)}` : '';
  // A bridge is a separate server for each address that it connects to.
  const at = addresses(target.args).map((address) => ` ${address}`);
  return [escaped(file), ...marks.map((mark) => `#${escaped(mark)}`), ...at, doubt].join('');
}

/** Escapes spaces and `#`, because they separate the parts of a name. */
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

/** Finds the script of an interpreter. Returns undefined also if an unknown option comes before the script. */
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

/** Whether the file may not be the server, because its arguments may choose the program that it runs. */
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

/** Whether a program is a shared tool, as wrappers are, and not part of its project. */
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

/** Whether a word names a file relative to the folder. In another folder it would name something else. */
function isNear(word: string, cwd: string): boolean {
  return !isAbsolute(word) && [word, join('node_modules', word)].some((at) => existsSync(join(cwd, at)));
}

/** Returns the `name@version` of the package that a script belongs to. */
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
  // A program found by PATH may have its own modules, as in a virtual environment.
  const where = anywhere ? [] : [cwd, findProgram(command, target) ?? command];
  // A program from a registry depends on no PATH and no variable, unless a shell reads the command.
  const by = Object.entries(env && anywhere && !args.some(isForShell) ? registryEnv(env) : (env ?? {}));
  // Nested lists prevent an argument from being mistaken for a folder.
  return sha256(JSON.stringify([command, args, where, by])).slice(0, 16);
}

/** Files that say, for a folder and those below it, which registry is used or what is run instead. */
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
