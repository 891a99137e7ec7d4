/** Hosts whose configuration `--print-config` can write. */
export const HOSTS = ['claude', 'cursor', 'vscode'] as const;

/** One of {@link HOSTS}. */
export type HostName = (typeof HOSTS)[number];

/** The JSON that makes a host start the bridge. VS Code names its servers otherwise than the others do. */
export function hostConfig(host: HostName, name: string, args: readonly string[]): string {
  const server = { command: 'npx', args: ['-y', 'mcp-valise', 'connect', ...args] };
  const config =
    host === 'vscode'
      ? { servers: { [name]: { type: 'stdio', ...server } } }
      : { mcpServers: { [name]: server } };
  return JSON.stringify(config, undefined, 2);
}

/** A short name for a target, as hosts show it. */
export function nameOf(target: string): string {
  const bare = target.startsWith('stdio:')
    ? (target.slice(6).trim().split(/\s+/)[0]?.split(/[/\\]/).at(-1) ?? 'server')
    : new URL(target).hostname;
  return bare.replace(/[^A-Za-z0-9.-]+/g, '-');
}
