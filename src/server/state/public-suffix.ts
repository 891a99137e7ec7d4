import type { ServerContext } from '../context.ts';
import type { KeySettings } from './key.ts';

/** Says, a moment later, where no client will keep a key since its `serverScope` is a public suffix. */
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
    // It takes as long to load as all of the server's side, and hardly any server needs it.
    const { parse } = await import('tldts');
    const bare = scope.replace(/^\./, '').replace(/\.$/, '');
    const { domain, isIcann, isPrivate } = parse(bare, { allowPrivateDomains: true });
    return domain === null && (isIcann === true || isPrivate === true);
  } catch {
    return false;
  }
}
