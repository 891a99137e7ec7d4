import { resolve } from 'node:path';
import type { ConnectOptions } from '../options.ts';
import { optionsAgain } from '../options-again.ts';
import type { CliTarget } from '../target.ts';

/** Hosts whose configuration `--print-config` can write. */
export const HOSTS = ['claude', 'codex', 'cursor', 'opencode', 'vscode', 'windsurf', 'zed'] as const;

/** One of {@link HOSTS}. */
export type HostName = (typeof HOSTS)[number];

/** The options of the command. */
export interface BridgeOptions extends ConnectOptions {
  readonly printConfig?: HostName;
  readonly session: string;
}

/** The package behind each kind of store that needs one. */
const DRIVERS: Readonly<Record<string, string>> = {
  sqlite: 'better-sqlite3@12',
  redis: 'ioredis',
  rediss: 'ioredis',
  postgres: 'pg',
  postgresql: 'pg',
};

/** What the bridge needs: beside Valise itself all of it is an optional peer, which npx does not bring along. */
function packagesFor(store: string): string[] {
  const driver = DRIVERS[store.split(':', 1)[0] ?? ''];
  return [
    'mcp-valise-cli',
    '@modelcontextprotocol/client@2',
    '@napi-rs/keyring@2',
    ...(driver === undefined ? [] : [driver]),
  ];
}

/** A command that starts the bridge, and the name that the host shows it under. */
interface Entry {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
}

const MCP_SERVERS = ({ name, ...server }: Entry): object => ({ mcpServers: { [name]: server } });

/** How each host writes an entry: JSON, except for Codex. */
const FORMATS: Readonly<Record<HostName, (entry: Entry) => object | string>> = {
  claude: MCP_SERVERS,
  cursor: MCP_SERVERS,
  windsurf: MCP_SERVERS,
  vscode: ({ name, ...server }) => ({ servers: { [name]: { type: 'stdio', ...server } } }),
  zed: ({ name, ...server }) => ({ context_servers: { [name]: server } }),
  opencode: ({ name, command, args }) => ({
    mcp: { [name]: { type: 'local', command: [command, ...args], enabled: true } },
  }),
  codex: toml,
};

/** A JSON string is a TOML string too, except that TOML wants DEL escaped. Codex takes letters, digits, `-` and `_` in names. */
function toml({ name, command, args }: Entry): string {
  const quoted = (text: string): string => JSON.stringify(text).replaceAll('\u007f', '\\u007f');
  return [
    `[mcp_servers.${name.replace(/[^A-Za-z0-9_-]+/g, '-')}]`,
    `command = ${quoted(command)}`,
    `args = [${args.map(quoted).join(', ')}]`,
  ].join('\n');
}

/** What makes a host start the bridge, as its configuration file has it. */
export function hostConfig(host: HostName, name: string, args: readonly string[], store = 'sqlite:'): string {
  const packages = packagesFor(store).flatMap((each) => ['-p', each]);
  const config = FORMATS[host]({
    name,
    command: 'npx',
    args: ['-y', ...packages, 'valise', 'connect', ...args],
  });
  return typeof config === 'string' ? config : JSON.stringify(config, undefined, 2);
}

/** A short name for a target, as hosts show it. A port is part of it: two servers on one machine are two entries. */
export function nameOf(target: CliTarget): string {
  const bare = target.kind === 'http' ? target.url.host : target.command.command.split(/[/\\]/).at(-1);
  return bare?.replace(/[^A-Za-z0-9.]+/g, '-').replace(/^-|-$/g, '') || 'server';
}

/**
 * The options that the host's configuration must hand on. Unlike those for people to read, with their secrets; and without
 * the major of the SDK, which the bridge cannot be told: npx brings it along.
 */
export function flagsOf({ store, header, session, sdk: _sdk, ...options }: BridgeOptions): string[] {
  return [
    ...(store === undefined ? [] : ['--store', storeFromAnywhere(store)]),
    ...optionsAgain(options),
    ...(session === 'none' ? [] : ['--session', session]),
    ...Object.entries(header).flatMap(([name, value]) => ['--header', `${name}: ${value}`]),
  ];
}

/** A store's URL that means the same in every folder: hosts start their servers wherever they like. */
export function storeFromAnywhere(url: string): string {
  const [, scheme, path] = /^(file|sqlite):(?!\/\/)(?!~)(.+)$/.exec(url) ?? [];
  return path === undefined ? url : `${scheme}:${resolve(path)}`;
}

/** How hosts name the variables of an entry. */
const ENV: Partial<Record<HostName, string>> & { readonly claude: string } = {
  claude: '"env": { "NAME": "…" }',
  codex: 'env = { NAME = "…" }',
  opencode: '"environment": { "NAME": "…" }',
};

/** Whether a store's URL has a password: before its host, or in its query as PostgreSQL takes it. */
function hasPassword(store: string): boolean {
  if (!URL.canParse(store)) return false;
  const { password, searchParams } = new URL(store);
  return password !== '' || searchParams.has('password');
}

/** What whoever pastes the configuration should know, one sentence each. */
export function configRemarks(
  host: HostName,
  target: string,
  { store, keyFile, header, env: handedOn }: BridgeOptions,
  env: NodeJS.ProcessEnv,
): string[] {
  const missing = ['VALISE_CLIENT_KEYS', ...(store === undefined ? ['VALISE_STORE'] : [])].filter(
    (name) => env[name] !== undefined && !handedOn.includes(name),
  );
  const add = (name: string): string => `add ${ENV[host] ?? ENV.claude}`.replace('NAME', name);
  const secrets = Object.keys(header).filter((name) => /auth|cookie|key|secret|token/i.test(name));
  return [
    ...missing.map(
      (name) => `valise: ${name} is set here, and the host may not hand it on: ${add(name)} to the entry.`,
    ),
    ...handedOn.map(
      (name) => `valise: the server is handed ${name}, which the host must have: ${add(name)} to the entry.`,
    ),
    ...(keyFile === undefined
      ? []
      : [
          `valise: the host must be able to read ${resolve(keyFile)}: the entry has its path, and not the keys.`,
        ]),
    ...secrets.map(
      (name) =>
        `valise: the header ${name} is in the configuration, for everybody to read who can read the file.`,
    ),
    ...(target.startsWith('http') && URL.canParse(target) && new URL(target).search !== ''
      ? [
          'valise: the query of the URL is in the configuration; if it has a secret, everybody can read it who can read the file.',
        ]
      : []),
    ...(store !== undefined && hasPassword(store)
      ? [
          'valise: the password of the store is in the configuration, for everybody to read who can read the file. Give the store as VALISE_STORE instead.',
        ]
      : []),
  ];
}
