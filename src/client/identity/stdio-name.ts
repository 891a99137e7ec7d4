import { accessSync, constants, existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { basename, delimiter, dirname, extname, isAbsolute, join, resolve, sep } from 'node:path';
import { isObject } from '../../core/json.ts';
import { sha256 } from '../../core/sha256.ts';
import { HANDED_ON } from '../../edge/stdio-client.ts';

/** A server that is started by a command. */
export interface StdioTarget {
  readonly kind: 'stdio';
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** The variables that may decide which program it is. */
  readonly env?: Env | undefined;
}

/** Where a program is searched. */
type Place = Pick<StdioTarget, 'cwd' | 'env'>;

/** The file that is the server, as far as it can be determined, and its arguments. */
interface Served {
  /** The path as the command names it, without resolving links. */
  readonly path: string;
  readonly rest: readonly string[];
}

const JAVASCRIPT = /^\.[cm]?[jt]sx?$/;
const SCRIPT = /^\.([cm]?[jt]sx?|py|rb|pl|php|lua|r|sh|ps1|jar|dll)$/i;

/** Programs that run the script in their arguments, without a version: `python3.11` is `python`. */
const INTERPRETER =
  /^(node|nodejs|bun|deno|tsx|ts-node|pythonw?|pypy|py|ruby|perl|php|lua|rscript|java|dotnet|pwsh|powershell|(ba|da|z)?sh)$/;
/** Programs that run what a registry knows by the name in their arguments, regardless of their location. */
const REGISTRY = /^(npx|pnpx|bunx|uvx|pipx|docker|podman|nerdctl)$/;

/** Packages whose scripts run what their arguments name. */
const LAUNCHER = /^(npm|pnpm|yarn|bun|tsx)@/;

/**
 * Returns a stdio server's name. Two programs never share a name.
 *
 * - The name is the absolute path of the server's file with links resolved. For an interpreter, this is the script, if it
 *   is the first argument after flags. The package that it belongs to and, on request, its digest follow after a `#`.
 * - An argument that names a file or a program may make the server's file run it, and so may any argument of an installed
 *   script. A digest of the arguments follows then. Of a URL, the host follows.
 * - Otherwise the whole command is the name. Its arguments are a digest, because they may be secret. The digest includes the
 *   variables that may decide what is run.
 */
export function stdioName(target: StdioTarget, digest: boolean | undefined): string {
  const served = servedBy(target);
  if (served === undefined) return commandName(target);
  const file = realpathSync(served.path);
  const owner = packageOf(file);
  const marks = [owner, digest ? digestOf(file) : undefined].filter((mark) => mark !== undefined);
  // A bridge is a separate server for each address that it connects to.
  const addresses = served.rest.flatMap(addressIn);
  const words = served.rest.filter((arg) => !FLAG.test(arg) && addressIn(arg).length === 0);
  const mayRunAnother =
    (words.length > 0 && (file.includes(`${sep}node_modules${sep}`) || LAUNCHER.test(owner ?? ''))) ||
    words.flatMap(wordsOf).some((word) => mayBeProgram(word, target));
  return [
    escaped(file),
    ...marks.map((mark) => `#${escaped(mark)}`),
    ...addresses.map((address) => ` ${address}`),
    mayRunAnother ? ` +${wordsDigest(words, target)}` : '',
  ].join('');
}

/** An option without a value. */
const FLAG = /^(--[a-z][\w-]*|-[a-z])$/i;
/** Options of interpreters after which no script comes. */
const TAKES_CODE = /^(-[cempr]|--(eval|print|command|call|module|run)\b.*)$/i;

/** Escapes spaces and `#`, because they separate the parts of a name. */
function escaped(part: string): string {
  return part.replace(/[%#\s]/g, encodeURIComponent);
}

/** Returns the server's file. Returns undefined if it is not certain: the program may be a launcher, or options say what runs. */
function servedBy(target: StdioTarget): Served | undefined {
  const { command, args, cwd } = target;
  const path = findProgram(command, target);
  if (isInterpreter(command) || (path !== undefined && isInterpreter(realpathSync(path)))) {
    const at = args.findIndex((arg) => !FLAG.test(arg) || TAKES_CODE.test(arg));
    const first = args[at];
    const script = first === undefined || first.startsWith('-') ? undefined : existing(resolve(cwd, first));
    // The value of an option may be any file, but rarely a script.
    const isScript = script !== undefined && (at === 0 || SCRIPT.test(extname(script)));
    return isScript ? { path: script, rest: args.slice(at + 1) } : undefined;
  }
  if (path === undefined || (!isPath(command) && args.some((arg) => !FLAG.test(arg)))) return undefined;
  return { path, rest: args };
}

function isInterpreter(program: string): boolean {
  return INTERPRETER.test(programName(program).replace(/-?\d[\d.]{0,15}$/, ''));
}

function isPath(command: string): boolean {
  return isAbsolute(command) || command.includes('/') || command.includes(sep);
}

function programName(path: string): string {
  return basename(path)
    .replace(/\.(exe|cmd|bat)$/i, '')
    .toLowerCase();
}

function existing(path: string): string | undefined {
  const found = ['', '.js', '.mjs', '.cjs', '.ts', '.py'].find((ending) => existsSync(path + ending));
  return found !== undefined && isFile(path + found) ? path + found : undefined;
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

function findProgram(command: string, place: Place): string | undefined {
  if (isPath(command)) return existing(resolve(place.cwd, command));
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

function wordsOf(arg: string): string[] {
  return [arg, ...arg.split(/[\s=]+/)].filter((word) => word !== '' && !word.startsWith('-'));
}

/** Whether a word names a file relative to the folder. In another folder it would name something else. */
function isNear(word: string, cwd: string): boolean {
  return !isAbsolute(word) && [word, join('node_modules', word)].some((at) => existsSync(join(cwd, at)));
}

/** Whether a word names a file, or a program in the `PATH`, that a server may run. */
function mayBeProgram(word: string, place: Place): boolean {
  if (isNear(word, place.cwd) || (isAbsolute(word) && existsSync(word))) return true;
  return !word.includes('/') && findProgram(word, place) !== undefined;
}

/** Returns the `name@version` of the package that a script belongs to. */
function packageOf(file: string): string | undefined {
  if (!JAVASCRIPT.test(extname(file)) && !file.includes(`${sep}node_modules${sep}`)) return undefined;
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

function addressIn(arg: string): string[] {
  const match = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#]*@)?([^/?#]+)/i.exec(arg);
  return match ? [(match[1] as string).toLowerCase()] : [];
}

/** Returns a digest of the arguments of a known file. The folder counts only if one of them names a file in it. */
function wordsDigest(words: readonly string[], { cwd, env = {} }: Place): string {
  const where = words.flatMap(wordsOf).some((word) => isNear(word, cwd)) ? [cwd] : [];
  return sha256(JSON.stringify([words, where, Object.entries(env)])).slice(0, 16);
}

function commandName(target: StdioTarget): string {
  const shown = target.args.find((arg) => !arg.startsWith('-') && !/[=:\s]|^\//.test(arg));
  return `${programName(target.command)}${shown === undefined ? '' : ` ${shown}`} +${argumentsDigest(target)}`;
}

function argumentsDigest(target: StdioTarget): string {
  const { command, args, cwd, env } = target;
  const anywhere = REGISTRY.test(programName(command)) && !isOfFolder(args, cwd);
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

/** Environment variables, by name. */
type Env = Readonly<Record<string, string>>;

/** Variables that say where to find programs, modules and the settings that name them. */
const LOOKUPS = new RegExp(
  `^(${[
    'PATH|PATHEXT|HOME|USERPROFILE|BASH_ENV|ZDOTDIR|(LD|DYLD)_[A-Z_]+',
    'PYTHON(PATH|HOME|USERBASE|STARTUP)|VIRTUAL_ENV|PYENV_VERSION|CONDA_(PREFIX|DEFAULT_ENV)|POETRY_VIRTUALENVS_PATH',
    'UV_(PROJECT|PROJECT_ENVIRONMENT|WORKING_DIRECTORY|PYTHON|ENV_FILE)',
    'NODE_(PATH|OPTIONS)|BUN_OPTIONS|npm_config_(local_)?prefix|DOTNET_(ROOT|STARTUP_HOOKS)',
    'RUBY(LIB|OPT)|GEM_(HOME|PATH)|BUNDLE_GEMFILE|PERL5(LIB|OPT)|LUA_C?PATH|PHPRC|PSModulePath',
    'CLASSPATH|JAVA_HOME|JAVA_TOOL_OPTIONS|JDK_JAVA_OPTIONS|GO(PATH|FLAGS|WORK)|CARGO_(HOME|TARGET_DIR)',
    'NIX_PATH|MAKE(FILES|FLAGS)|JUST_JUSTFILE',
  ].join('|')})$`,
  'i',
);
/** Variables that say which registry or machine launchers use. */
const REGISTRIES =
  /^(npm_config_(.*:)?registry|UV_(INDEX|INDEX_URL|DEFAULT_INDEX|EXTRA_INDEX_URL|FIND_LINKS)|PIP_(INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS)|(DOCKER|CONTAINER)_(HOST|CONTEXT|CONNECTION))$/i;

/**
 * Returns the variables that may decide which program a server is. Returns undefined if there are none. Other
 * variables are excluded: most are settings, which change, or secrets, which readers of the store could guess from a digest
 * beside known text. Variables that the command mentions always count, because `sh -c 'exec $TOOL'` runs what they say.
 */
export function decidingEnv(env: unknown, args: readonly string[]): Env | undefined {
  if (typeof env !== 'object' || env === null) return undefined;
  const spoken = new Set(args.flatMap((arg) => arg.split(/\W+/).filter((word) => word !== arg)));
  const deciding = Object.entries(env)
    .filter(([name, value]) => {
      if (value === undefined || (isHandedOn(name) && value === process.env[name])) return false;
      return LOOKUPS.test(name) || REGISTRIES.test(name) || spoken.has(name);
    })
    .sort(([one], [other]) => (one < other ? -1 : 1))
    // The URL of a registry may contain a user name.
    .map(([name, value]) => [name, String(value).replace(/\/\/[^/@\s]*@/g, '//')]);
  return deciding.length > 0 ? Object.fromEntries(deciding) : undefined;
}

/** Whether a variable is passed on by default. Setting it to its current value then changes nothing. */
function isHandedOn(name: string): boolean {
  return HANDED_ON.includes(name.toUpperCase());
}

/** Returns the deciding variables that select a registry. */
function registryEnv(env: Env): Env {
  return Object.fromEntries(Object.entries(env).filter(([name]) => REGISTRIES.test(name)));
}

/** Returns the folders in which a server's programs are searched: those of its own `PATH`, or of the inherited one. */
function searchPath(env: Env = {}): string {
  const key = process.platform === 'win32' ? /^path$/i : /^PATH$/;
  const name = Object.keys(env).find((each) => key.test(each));
  return (name === undefined ? process.env['PATH'] : env[name]) ?? '';
}
