import type { ServerContext } from '../context.ts';
import type { KeySettings } from './key.ts';

/**
 * Creates a check that warns if no client will store a key, because its `serverScope` is a public suffix.
 *
 * The check runs asynchronously.
 */
export function suffixWarning(
  warnOnce: ServerContext['warnOnce'],
): (name: string, settings: KeySettings) => void {
  const seen = new Set<string>();
  return (name, { serverScope }) => {
    // Servers that are built for each request declare their keys each time.
    if (serverScope === undefined || seen.has(serverScope)) return;
    seen.add(serverScope);
    void isPublicSuffix(serverScope).then((isSuffix) => {
      if (!isSuffix) return;
      warnOnce(`public-suffix ${serverScope}`, {
        what: `No client keeps state ${JSON.stringify(name)}: its serverScope ${serverScope} is a public suffix, below which many owners have names.`,
        next: 'Give the domain of the server, or one above it that is all yours.',
      });
    });
  };
}

async function isPublicSuffix(scope: string): Promise<boolean> {
  try {
    // Loading this module takes as long as loading the whole server side, and few servers need it.
    const { parse } = await import('tldts');
    const bare = scope.replace(/^\./, '').replace(/\.$/, '');
    const { domain, isIcann, isPrivate } = parse(bare, { allowPrivateDomains: true });
    return domain === null && (isIcann === true || isPrivate === true);
  } catch {
    return false;
  }
}
