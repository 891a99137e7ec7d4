/**
 * Returns a URL as browsers reach it, without its query.
 *
 * A proxy that ends TLS says so in a header. A client that forges the header only gets a link that does not work.
 */
export function publicUrl(url: string, forwarded: string | null | undefined): string {
  const { protocol, host, pathname } = new URL(url);
  const isSecure = protocol === 'https:' || forwarded?.split(',', 1)[0]?.trim() === 'https';
  return `${isSecure ? 'https:' : 'http:'}//${host}${pathname}`;
}
