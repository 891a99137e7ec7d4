import { ValiseError } from '../core/errors.ts';

/** The major versions of the official SDK. */
export type Major = 'v1' | 'v2';

/** Returns the SDK major of a client. Only v2 knows `server/discover`. */
export function majorOf(client: object): Major {
  return 'getDiscoverResult' in client ? 'v2' : 'v1';
}

/** Returns the major to use for a host that has neither: the newer one, unless only the older one is installed. */
export function installedMajor(): Major {
  return !isInstalled('@modelcontextprotocol/client') &&
    isInstalled('@modelcontextprotocol/sdk/client/index.js')
    ? 'v1'
    : 'v2';
}

function isInstalled(name: string): boolean {
  try {
    // Before Node 20.6 this cannot be checked. The package is then assumed to be installed, and loading it shows.
    import.meta.resolve?.(name);
    return true;
  } catch {
    return false;
  }
}

/** Loads a package of the SDK, which is an optional peer. */
export async function loadSdk<T>(name: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    if ((cause as { readonly code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw cause;
    throw new ValiseError('missing-package', `The package ${name} is not installed.`, {
      next: `Install it beside mcp-valise: npm install ${name}`,
      cause,
    });
  }
}
