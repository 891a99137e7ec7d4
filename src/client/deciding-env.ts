import { HANDED_ON } from '../link/stdio-client.ts';

/** Environment variables, by name. */
export type Env = Readonly<Record<string, string>>;

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
 * Returns the given variables that may decide which program a server is. Returns undefined if there are none. Other
 * variables are excluded: most are settings, which change, or secrets, which readers of the store could guess from a digest
 * beside known text. Variables that the command mentions always count, because `sh -c 'exec $TOOL'` runs what they say.
 */
export function decidingEnv(given: unknown, args: readonly string[]): Env | undefined {
  if (typeof given !== 'object' || given === null) return undefined;
  const spoken = new Set(args.flatMap((arg) => arg.split(/\W+/).filter((word) => word !== arg)));
  const deciding = Object.entries(given)
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
export function registryEnv(env: Env): Env {
  return Object.fromEntries(Object.entries(env).filter(([name]) => REGISTRIES.test(name)));
}

/** Returns the folders in which a server's programs are searched: those of the `PATH` that it is given, or else inherits. */
export function searchPath(env: Env = {}): string {
  const key = process.platform === 'win32' ? /^path$/i : /^PATH$/;
  const given = Object.keys(env).find((name) => key.test(name));
  return (given === undefined ? process.env['PATH'] : env[given]) ?? '';
}
