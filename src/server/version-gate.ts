import { type Family, familiesUsed, unsupportedVersions } from '../wire/extension-version.ts';
import type { Response } from '../wire/index.ts';
import type { Exchange } from './exchange.ts';

/**
 * Returns the refusal of a request that uses an extension in a major version that this release does not support. Other
 * requests of such a client are handled as if it had not announced the extension.
 */
export function versionRefusal(
  exchange: Exchange,
  unsupported: Partial<Readonly<Record<Family, string>>>,
): Response | undefined {
  const used = familiesUsed(exchange.method, exchange.request.params).flatMap((family) => {
    const version = unsupported[family];
    return version === undefined ? [] : [[family, version] as const];
  });
  if (used.length === 0) return undefined;
  return exchange.respond({ error: unsupportedVersions(Object.fromEntries(used)) });
}
