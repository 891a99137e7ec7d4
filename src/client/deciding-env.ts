import { HANDED_ON } from '../link/stdio-client.ts';

/** Variables by their name and value. */
export type Env = Readonly<Record<string, string>>;

/** Where programs, modules and settings that name them are looked for. */
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
/** Which registry, or machine, launchers ask. */
const REGISTRIES =
  /^(npm_config_(.*:)?registry|UV_(INDEX|INDEX_URL|DEFAULT_INDEX|EXTRA_INDEX_URL|FIND_LINKS)|PIP_(INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS)|(DOCKER|CONTAINER)_(HOST|CONTEXT|CONNECTION))$/i;

/**
 * Of the variables that a server is given, those that may decide which program it is; undefined where there are none.
 * Not all of them: most are the server's settings, which change, and secrets, which a digest in the store beside text
 * that everybody knows would let its readers guess. The ones that a command speaks of count whatever they hold, since
 * `sh -c 'exec $TOOL'` runs what they say.
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
    // Addresses of registries may say who asks.
    .map(([name, value]) => [name, String(value).replace(/\/\/[^/@\s]*@/g, '//')]);
  return deciding.length > 0 ? Object.fromEntries(deciding) : undefined;
}

/** Given with the value that it has here, such a variable changes nothing. */
function isHandedOn(name: string): boolean {
  return HANDED_ON.includes(name.toUpperCase());
}

/** Of deciding variables those that say which registry is asked. */
export function registryEnv(env: Env): Env {
  return Object.fromEntries(Object.entries(env).filter(([name]) => REGISTRIES.test(name)));
}

/** The folders in which a server's programs are looked for: those of the `PATH` that it is given, or else inherits. */
export function searchPath(env: Env = {}): string {
  const key = process.platform === 'win32' ? /^path$/i : /^PATH$/;
  const given = Object.keys(env).find((name) => key.test(name));
  return (given === undefined ? process.env['PATH'] : env[given]) ?? '';
}
