import { resolve } from 'node:path';
import type { ConnectOptions } from '../options.ts';
import { optionsAgain } from '../options-again.ts';
import type { CliTarget } from '../target.ts';

/** Hosts whose configuration `--print-config` can write. */
export const HOSTS = ['claude', 'cursor', 'vscode'] as const;

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
    'mcp-valise',
    '@modelcontextprotocol/client@2',
    '@napi-rs/keyring@2',
    ...(driver === undefined ? [] : [driver]),
  ];
}

/** The JSON that makes a host start the bridge. VS Code names its servers otherwise than the others do. */
export function hostConfig(host: HostName, name: string, args: readonly string[], store = 'sqlite:'): string {
  const packages = packagesFor(store).flatMap((each) => ['-p', each]);
  const server = { command: 'npx', args: ['-y', ...packages, 'valise', 'connect', ...args] };
  const config =
    host === 'vscode'
      ? { servers: { [name]: { type: 'stdio', ...server } } }
      : { mcpServers: { [name]: server } };
  return JSON.stringify(config, undefined, 2);
}

/** A short name for a target, as hosts show it. */
export function nameOf(target: CliTarget): string {
  const bare = target.kind === 'http' ? target.url.hostname : target.command.command.split(/[/\\]/).at(-1);
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

/** What whoever pastes the configuration should know, one sentence each. */
export function configRemarks(
  { store, header, env: handedOn }: BridgeOptions,
  env: NodeJS.ProcessEnv,
): string[] {
  const missing = ['VALISE_CLIENT_KEYS', ...(store === undefined ? ['VALISE_STORE'] : [])].filter(
    (name) => env[name] !== undefined && !handedOn.includes(name),
  );
  const secrets = Object.keys(header).filter((name) => /auth|cookie|key|secret|token/i.test(name));
  return [
    ...missing.map(
      (name) =>
        `valise: ${name} is set here, and the host may not hand it on: add "env": { "${name}": "…" } to the entry.`,
    ),
    ...handedOn.map(
      (name) =>
        `valise: the server is handed ${name}, which the host must have: add "env": { "${name}": "…" } to the entry.`,
    ),
    ...secrets.map(
      (name) =>
        `valise: the header ${name} is in the configuration, for everybody to read who can read the file.`,
    ),
  ];
}
