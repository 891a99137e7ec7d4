/** A program that runs the file it is given. */
export interface Interpreter {
  /** Its name, without a trailing version. */
  readonly name: RegExp;
  /** A word that may come before the options. */
  readonly verb?: string;
  /** Options without a value that do not change which file is run. */
  readonly alone?: RegExp;
  /** Such options with a value as the next argument, matched against the two joined by a space. */
  readonly paired?: RegExp;
}

const LOADER = '(tsx|tsx/(esm|cjs)|ts-node/(esm|register)|dotenv/config|source-map-support/register)';
const WARNING = '(ignore|default|error|always|module|once)';
const PYTHON_SETTING = '(utf8|dev|faulthandler|importtime|frozen_modules|no_debug_ranges)(=\\w+)?';

// An option that is not listed may take the next argument or name another program. The program to run is then unknown, so
// only options that are certainly harmless are listed.
const INTERPRETERS: readonly Interpreter[] = [
  {
    name: /^(node|nodejs|tsx|ts-node)$/,
    alone: new RegExp(
      `^--(enable-source-maps|no-warnings|no-deprecation|trace-(warnings|deprecation|uncaught)|expose-gc|watch|inspect|use-system-ca|experimental-(strip-types|transform-types|sqlite|vm-modules|wasm-modules)|(inspect|max-old-space-size|env-file|env-file-if-exists|title|conditions|tsconfig)=.*|(require|import|loader|experimental-loader)=${LOADER})$`,
    ),
    paired: new RegExp(
      `^(--env-file|--env-file-if-exists|--title|-C|--conditions|--tsconfig) |^(-r|--require|--import|--loader|--experimental-loader) ${LOADER}$`,
    ),
  },
  { name: /^bun$/, verb: 'run', alone: /^(-b|--(bun|smol|silent|watch|hot|no-install|env-file=.*))$/ },
  {
    name: /^deno$/,
    verb: 'run',
    alone:
      /^(-[AqRWNES]|--((allow|deny)-[a-z]+(=.*)?|no-check|no-prompt|no-lock|quiet|cached-only|unstable(-[a-z-]+)?))$/,
  },
  {
    name: /^(python|pythonw|pypy|py)$/,
    alone: new RegExp(`^-([bBdEIOPqsSuvx]+|W${WARNING}|X${PYTHON_SETTING}|\\d[\\d.]*)$`),
    paired: new RegExp(`^(-W ${WARNING}|-X ${PYTHON_SETTING})$`),
  },
  { name: /^ruby$/, alone: /^(-w|-W\d?|--yjit|--jit)$/ },
  { name: /^perl$/, alone: /^-[wWXTt]+$/ },
  { name: /^java$/, alone: /^-(jar|server|Xm[sx]\w+)$/ },
  { name: /^dotnet$/, verb: 'exec' },
  { name: /^(sh|bash|zsh|dash)$/, alone: /^(-[lux]+|--(login|norc|noprofile|posix))$/ },
  { name: /^rscript$/, alone: /^--(vanilla|no-save|no-restore)$/ },
  { name: /^(php|lua|pwsh|powershell)$/ },
];

/** Programs that find out by themselves what to run. Their own path says nothing about the server. */
const LAUNCHERS =
  /^(npx|npm|npx-cli|npm-cli|pnpm|pnpx|yarn|corepack|bunx|uvx|uv|pipx|poetry|conda|docker|podman|nerdctl|env|sudo|ssh|wsl|cmd|nix|cargo|go|xargs|timeout|nohup|nice|make|just|task|rake|bundle|gradle|mvn|busybox)$/;
/** Launchers that run what a registry knows by the given name, regardless of their location. */
const REGISTRIES = /^(npx|pnpx|bunx|uvx|pipx|docker|podman|nerdctl)$/;

/** Returns the interpreter with a name, including one with a trailing version: `python3.11`, `node22`. */
export function interpreterOf(program: string): Interpreter | undefined {
  const name = bare(program);
  return INTERPRETERS.find((one) => one.name.test(name));
}

/** Whether a program runs another one that it finds by itself. */
export function isLauncher(program: string): boolean {
  return LAUNCHERS.test(bare(program));
}

/** Whether a program is a launcher that uses a registry. */
export function asksRegistry(program: string): boolean {
  return REGISTRIES.test(bare(program));
}

/** Whether a program runs other programs. */
export function runsOthers(program: string): boolean {
  return isLauncher(program) || interpreterOf(program) !== undefined;
}

function bare(program: string): string {
  return program.replace(/-?\d[\d.]{0,15}$/, '');
}
