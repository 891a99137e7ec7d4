import { ValiseError } from 'mcp-valise/client';
import type { Sdk } from './sdk.ts';

/** The package of each major that makes clients, and the one that makes servers. */
export const SDK_PACKAGES = {
  client: { v1: '@modelcontextprotocol/sdk', v2: '@modelcontextprotocol/client' },
  server: { v1: '@modelcontextprotocol/sdk', v2: '@modelcontextprotocol/server' },
} as const;

/** True where a package, which may be an optional peer, is there to be loaded. */
export function isInstalled(name: string): boolean {
  try {
    // Before Node 20.6 there is no way to ask: then it is taken to be there, and loading it tells.
    import.meta.resolve?.(name);
    return true;
  } catch {
    return false;
  }
}

/** The major to use where nobody says which: the newer one, unless only the older one is installed. */
export function installedSdk(side: keyof typeof SDK_PACKAGES): Sdk {
  const { v1, v2 } = SDK_PACKAGES[side];
  return !isInstalled(v2) && isInstalled(v1) ? 'v1' : 'v2';
}

/** Says at once, and with one command, what has to be installed for something to work. */
export function needPackages(who: string, names: readonly string[]): void {
  const missing = names.filter((name) => !isInstalled(name));
  if (missing.length === 0) return;
  const what = missing.length === 1 ? 'a package that is' : 'packages that are';
  throw new ValiseError('missing-package', `${who} needs ${what} not installed: ${missing.join(', ')}.`, {
    next: `Run beside mcp-valise: npm install ${missing.join(' ')}`,
  });
}
