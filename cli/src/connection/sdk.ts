import { ValiseError } from 'mcp-valise/client';
import { loadSdk } from 'mcp-valise/internal';
import pkg from '../../package.json' with { type: 'json' };
import { UsageError } from '../errors.ts';

/** The client package and the server package of each SDK major. */
export const SDK_PACKAGES = {
  client: { v1: '@modelcontextprotocol/sdk', v2: '@modelcontextprotocol/client' },
  server: { v1: '@modelcontextprotocol/sdk', v2: '@modelcontextprotocol/server' },
} as const;

const { v2 } = SDK_PACKAGES.client;

/** The major of the official SDK that a command uses. */
export type Sdk = 'v1' | 'v2';

/** The era of the protocol that a command speaks. */
export type EraChoice = 'auto' | 'legacy' | 'modern';

/** Advice for speaking the newer era, which v1 does not support. */
export const USE_V2 = isInstalled(v2) ? 'Use --sdk v2.' : `Run beside mcp-valise: npm install ${v2}`;

/** Settings of a client that a command creates. */
export interface ClientSettings {
  readonly sdk: Sdk;
  readonly era: EraChoice;
  readonly capabilities?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** Creates a client of the given SDK major. The commands use only what both majors support. */
export async function makeClient({ sdk, era, capabilities = {} }: ClientSettings) {
  const info = { name: 'valise', version: pkg.version };
  if (sdk === 'v2') {
    const { Client } = await loadSdk(
      '@modelcontextprotocol/client',
      () => import('@modelcontextprotocol/client'),
    );
    const mode = era === 'modern' ? { pin: '2026-07-28' } : era;
    // People answer, or a pending question is asked again, more often than the SDK allows by default.
    const inputRequired = { maxRounds: 100 };
    return new Client(info, { capabilities, versionNegotiation: { mode }, inputRequired });
  }
  if (era === 'modern') {
    throw new UsageError('no-such-era', 'The v1 SDK speaks the protocol up to 2025-11-25 only.', {
      next: USE_V2,
    });
  }
  const { Client } = await loadSdk(
    '@modelcontextprotocol/sdk',
    () => import('@modelcontextprotocol/sdk/client/index.js'),
  );
  // The commands' calls are the same in both majors; one type for both keeps the commands free of casts.
  return new Client(info, { capabilities }) as unknown as import('@modelcontextprotocol/client').Client;
}

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
