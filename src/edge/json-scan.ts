/** The position of a value in a JSON text: from `start` up to, but not including, `end`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * Finds the members of the JSON object that starts at `from`, without parsing their values, so that the text of a value
 * can be kept unchanged. Returns undefined if the text is not an object. Use it only for text that `JSON.parse`
 * accepts, because it does not validate the grammar.
 */
export function skimObject(text: string, from = 0): Map<string, Span> | undefined {
  let at = skipSpace(text, from);
  if (text[at] !== '{') return undefined;
  const members = new Map<string, Span>();
  at = skipSpace(text, at + 1);
  while (at < text.length && text[at] !== '}') {
    const keyEnd = skipString(text, at);
    const key = JSON.parse(text.slice(at, keyEnd)) as string;
    const start = skipSpace(text, skipSpace(text, keyEnd) + 1);
    const end = skipValue(text, start);
    members.set(key, { start, end });
    at = skipSpace(text, end);
    if (text[at] === ',') at = skipSpace(text, at + 1);
  }
  return members;
}

/** Finds the elements of the JSON array that starts at `from`. Returns undefined if the text is not an array. */
export function skimArray(text: string, from = 0): Span[] | undefined {
  let at = skipSpace(text, from);
  if (text[at] !== '[') return undefined;
  const elements: Span[] = [];
  at = skipSpace(text, at + 1);
  while (at < text.length && text[at] !== ']') {
    const end = skipValue(text, at);
    elements.push({ start: at, end });
    at = skipSpace(text, end);
    if (text[at] === ',') at = skipSpace(text, at + 1);
  }
  return elements;
}

function skipSpace(text: string, from: number): number {
  let at = from;
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) break;
  }
  return at;
}

/** Returns the end of the string that starts at `from`. */
export function skipString(text: string, from: number): number {
  for (let at = from + 1; ; ) {
    const quote = text.indexOf('"', at);
    if (quote < 0) return text.length;
    let slashes = 0;
    while (text.charCodeAt(quote - 1 - slashes) === 0x5c) slashes++;
    if (slashes % 2 === 0) return quote + 1;
    at = quote + 1;
  }
}

function skipValue(text: string, from: number): number {
  const first = text[from];
  if (first === '"') return skipString(text, from);
  if (first === '{' || first === '[') return skipNested(text, from);
  let at = from;
  while (at < text.length && !',]} \t\r\n'.includes(text[at] as string)) at++;
  return at;
}

/** Skips an object or array. Counts brackets instead of recursing, so that depth does not use the stack. */
function skipNested(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; ) {
    const code = text.charCodeAt(at);
    if (code === 0x22) {
      at = skipString(text, at);
      continue;
    }
    if (code === 0x7b || code === 0x5b) depth++;
    else if (code === 0x7d || code === 0x5d) {
      depth--;
      if (depth === 0) return at + 1;
    }
    at++;
  }
  return text.length;
}
