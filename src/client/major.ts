import { ValiseError } from '../errors.ts';

/** The majors of the official SDK. */
export type Major = 'v1' | 'v2';

/** Which major a client is of: only v2 knows `server/discover`. */
export function majorOf(client: object): Major {
  return 'getDiscoverResult' in client ? 'v2' : 'v1';
}

/** Whether a v2 client speaks the modern era at all; its default is not to. */
export function speaksModern(client: object): boolean {
  const { _versionNegotiation } = client as { readonly _versionNegotiation?: { readonly mode?: unknown } };
  const mode = _versionNegotiation?.mode;
  return majorOf(client) === 'v2' && mode !== undefined && mode !== 'legacy';
}

/** Loads a package of the SDK, which is an optional peer. */
export async function loadSdk<T>(name: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    throw new ValiseError('missing-package', `The package ${name} could not be loaded.`, {
      next: `Install it beside mcp-valise: npm install ${name}`,
      cause,
    });
  }
}
