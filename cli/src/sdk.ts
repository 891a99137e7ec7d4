import { loadSdk } from 'mcp-valise/internal';
import pkg from '../package.json' with { type: 'json' };
import { CommandError } from './errors.ts';
import { isInstalled, SDK_PACKAGES } from './installed.ts';

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
    throw new CommandError('no-such-era', 'The v1 SDK speaks the protocol up to 2025-11-25 only.', {
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
