import { resolve } from 'node:path';
import type { CliTarget } from '../connection/target.ts';
import { followUpOptions } from '../options/follow-up.ts';
import type { ConnectOptions } from '../options/options.ts';

/** Hosts whose configuration `--print-config` can write. */
export const HOSTS = ['claude', 'codex', 'cursor', 'opencode', 'vscode', 'windsurf', 'zed'] as const;

/** One of {@link HOSTS}. */
export type HostName = (typeof HOSTS)[number];

/** Options of `valise connect`. */
export interface BridgeOptions extends ConnectOptions {
  readonly printConfig?: HostName;
  readonly session: string;
}

/** The driver package of each store scheme that needs one. */
const DRIVERS: Readonly<Record<string, string>> = {
  sqlite: 'better-sqlite3@12',
  redis: 'ioredis',
  rediss: 'ioredis',
  postgres: 'pg',
  postgresql: 'pg',
};

/** Returns the packages that the bridge needs. All except Valise itself are optional peers, which npx does not install. */
function packagesFor(store: string): string[] {
  const driver = DRIVERS[store.split(':', 1)[0] ?? ''];
  return [
    'mcp-valise-cli',
    '@modelcontextprotocol/client@2',
    '@napi-rs/keyring@2',
    ...(driver === undefined ? [] : [driver]),
  ];
}

/** A command that starts the bridge, and the name under which the host shows it. */
interface Entry {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
}

const MCP_SERVERS = ({ name, ...server }: Entry): object => ({ mcpServers: { [name]: server } });

/** The configuration format of each host: JSON, except for Codex. */
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

/**
 * Every JSON string is a TOML string too, except that TOML requires DEL to be escaped. Codex accepts letters, digits, `-`
 * and `_` in names.
 */
function toml({ name, command, args }: Entry): string {
  const quoted = (text: string): string => JSON.stringify(text).replaceAll('\u007f', '\\u007f');
  return [
    `[mcp_servers.${name.replace(/[^A-Za-z0-9_-]+/g, '-')}]`,
    `command = ${quoted(command)}`,
    `args = [${args.map(quoted).join(', ')}]`,
  ].join('\n');
}

/** Returns the configuration that makes a host start the bridge, in the format of its configuration file. */
export function hostConfig(host: HostName, name: string, args: readonly string[], store = 'sqlite:'): string {
  const packages = packagesFor(store).flatMap((each) => ['-p', each]);
  const config = FORMATS[host]({
    name,
    command: 'npx',
    args: ['-y', ...packages, 'valise', 'connect', ...args],
  });
  return typeof config === 'string' ? config : JSON.stringify(config, undefined, 2);
}

/** Returns a short display name for a target. It includes the port, because two servers on one machine are two entries. */
export function nameOf(target: CliTarget): string {
  const bare = target.kind === 'http' ? target.url.host : target.command.command.split(/[/\\]/).at(-1);
  return bare?.replace(/[^A-Za-z0-9.]+/g, '-').replace(/^-|-$/g, '') || 'server';
}

/**
 * Returns the options that the host's configuration must pass on. Unlike the options printed for people, they include
 * secrets. They omit the SDK major, which the bridge does not accept, because npx installs the SDK.
 */
export function flagsOf({ store, header, session, sdk: _sdk, ...options }: BridgeOptions): string[] {
  return [
    ...(store === undefined ? [] : ['--store', storeFromAnywhere(store)]),
    ...followUpOptions(options),
    ...(session === 'none' ? [] : ['--session', session]),
    ...Object.entries(header).flatMap(([name, value]) => ['--header', `${name}: ${value}`]),
  ];
}

/** Returns a store URL that means the same in every directory, because hosts start their servers in any directory. */
export function storeFromAnywhere(url: string): string {
  const [, scheme, path] = /^(file|sqlite):(?!\/\/)(?!~)(.+)$/.exec(url) ?? [];
  return path === undefined ? url : `${scheme}:${resolve(path)}`;
}

/** The notation for an entry's environment variables, by host. */
const ENV: Partial<Record<HostName, string>> & { readonly claude: string } = {
  claude: '"env": { "NAME": "…" }',
  codex: 'env = { NAME = "…" }',
  opencode: '"environment": { "NAME": "…" }',
};

/** Whether a store's URL contains a password, either before its host or in the query, as PostgreSQL accepts it. */
function hasPassword(store: string): boolean {
  if (!URL.canParse(store)) return false;
  const { password, searchParams } = new URL(store);
  return password !== '' || searchParams.has('password');
}

/** Returns remarks for the person who pastes the configuration, one sentence each. */
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
