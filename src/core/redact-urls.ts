const AFTER_SCHEME = /(?<=:\/\/)[^\s"'<>]+/g;

/**
 * Returns a text, such as a URL or an error message, with the secrets of every URL redacted. The user and password, the
 * query values and the fragment are each replaced by `…`. Safe to apply twice.
 *
 * @example
 * ```ts
 * redactUrls('https://ada:pw@example.com/mcp?key=s3cret'); // 'https://…@example.com/mcp?key=…'
 * ```
 */
export function redactUrls(text: string): string {
  return text.replace(AFTER_SCHEME, (rest) => {
    const [beforeFragment = '', fragment] = splitAt(rest, '#');
    const [place = '', query] = splitAt(beforeFragment, '?');
    const [authority = '', path] = splitAt(place, '/');
    const user = authority.lastIndexOf('@');
    return [
      user < 0 ? authority : `…${authority.slice(user)}`,
      path === undefined ? '' : `/${path}`,
      query === undefined ? '' : `?${query.split('&').map(redactPair).join('&')}`,
      fragment === undefined ? '' : `#${redact(fragment)}`,
    ].join('');
  });
}

function splitAt(text: string, mark: string): readonly [string, string?] {
  const at = text.indexOf(mark);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

function redactPair(pair: string): string {
  const [name, value] = splitAt(pair, '=');
  return value === undefined ? redact(name) : `${name}=${redact(value)}`;
}

/** Text after a value that is already redacted belongs to the sentence around the URL. */
function redact(value: string): string {
  return value === '' || value.startsWith('…') ? value : '…';
}
