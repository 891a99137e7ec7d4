import { ValiseError } from 'mcp-valise/client';
import type { Sdk } from './sdk.ts';

/** The client package and the server package of each SDK major. */
export const SDK_PACKAGES = {
  client: { v1: '@modelcontextprotocol/sdk', v2: '@modelcontextprotocol/client' },
  server: { v1: '@modelcontextprotocol/sdk', v2: '@modelcontextprotocol/server' },
} as const;

/** Whether a package, which may be an optional peer, is installed. */
export function isInstalled(name: string): boolean {
  try {
    // Before Node 20.6 there is no way to check, so the package is assumed to exist until loading it fails.
    import.meta.resolve?.(name);
    return true;
  } catch {
    return false;
  }
}

/** Returns the default SDK major: v2, or v1 if only that is installed. */
export function installedSdk(side: keyof typeof SDK_PACKAGES): Sdk {
  const { v1, v2 } = SDK_PACKAGES[side];
  return !isInstalled(v2) && isInstalled(v1) ? 'v1' : 'v2';
}

/** Throws an error that lists all missing packages, with one command that installs them. */
export function needPackages(who: string, names: readonly string[]): void {
  const missing = names.filter((name) => !isInstalled(name));
  if (missing.length === 0) return;
  const what = missing.length === 1 ? 'a package that is' : 'packages that are';
  throw new ValiseError('missing-package', `${who} needs ${what} not installed: ${missing.join(', ')}.`, {
    next: `Run beside mcp-valise: npm install ${missing.join(' ')}`,
  });
}
