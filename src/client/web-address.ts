import { ValiseError } from '../errors.ts';

/** Parses the URL of a server. The URL may contain a secret, so no error repeats it. */
export function webAddress(url: string | URL): URL {
  if (URL.canParse(String(url)) && /^https?:/i.test(String(url))) return new URL(url);
  throw new ValiseError(
    'invalid-argument',
    'What was given as the address of a server is no http: or https: URL.',
    {
      next: 'Give it in full, such as https://example.com/mcp.',
    },
  );
}
