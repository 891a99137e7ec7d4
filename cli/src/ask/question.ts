import { domainToUnicode } from 'node:url';
import type { PendingQuestion } from 'mcp-valise/client';
import { type Field, fieldsOf } from './field.ts';

/** Returns the text of a question for people, including the page that it refers to. */
export function wordsOf({ method, params }: PendingQuestion): string {
  const link = params?.['url'] === undefined ? [] : [readLink(params['url']).words];
  return [String(params?.['message'] ?? method), ...link].join(' ');
}

/**
 * Describes a page that a server asks the user to open. The text names the host in ASCII, as DNS resolves it, whatever the
 * server's URL makes it look like. Other schemes, such as `javascript:` and `file:`, are not safe: they act on this machine.
 */
export function readLink(text: unknown): { readonly words: string; readonly isSafe: boolean } {
  const url = URL.canParse(String(text)) ? new URL(String(text)) : undefined;
  if (url?.protocol !== 'https:' && url?.protocol !== 'http:') {
    const kind = url === undefined ? 'something that is no URL' : `a ${url.protocol} URL`;
    return {
      words: `The server asks you to open ${kind}. Do not: only http: and https: URLs are pages.`,
      isSafe: false,
    };
  }
  const { protocol, hostname, username, password } = url;
  const isHere = /^(localhost|127\.0\.0\.1|\[::1\])$/.test(hostname);
  const words = [
    `The server asks you to open a page of ${hostname}: ${url.href}`,
    /(^|\.)xn--/.test(hostname) &&
      `Careful: ${hostname} is shown by browsers as ${domainToUnicode(hostname)}.`,
    (username !== '' || password !== '') && `Careful: what stands before @ is not the host.`,
    protocol === 'http:' && !isHere && 'Careful: http: is not encrypted.',
  ];
  return { words: words.filter(Boolean).join(' '), isSafe: true };
}

/** Returns the fields of a question that `--answer` can fill in. */
export function answersTo({ params }: PendingQuestion): readonly Field[] {
  return fieldsOf(params?.['requestedSchema']);
}

const KINDS = { string: 'TEXT', number: 'NUMBER', integer: 'NUMBER', boolean: 'yes|no', array: 'TEXT,…' };

/** Formats a field as `--answer` accepts it, e.g. `resolution=Fixed|Duplicate`; in brackets if it is optional. */
export function patternOf({ name, type, choices, required }: Field): string {
  const values = choices?.map(({ value }) => value).join('|');
  const pattern = `${name}=${values === undefined ? KINDS[type] : type === 'array' ? `${values},…` : values}`;
  return required ? pattern : `[${pattern}]`;
}
