const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'long' });

/** How far away a time is, such as `in 9 minutes` or `2 days ago`. */
export function relative(time: number, now = Date.now()): string {
  const seconds = Math.round((time - now) / 1000);
  const size = Math.abs(seconds);
  if (size < 5) return 'just now';
  if (size < 60) return RELATIVE.format(seconds, 'second');
  if (size < 3600) return RELATIVE.format(Math.trunc(seconds / 60), 'minute');
  if (size < 172_800) return RELATIVE.format(Math.trunc(seconds / 3600), 'hour');
  return RELATIVE.format(Math.trunc(seconds / 86_400), 'day');
}

/** A size for people. */
export function bytes(size: number): string {
  if (size < 1024) return `${size} B`;
  return size < 1024 * 1024 ? `${(size / 1024).toFixed(1)} KB` : `${(size / 1024 / 1024).toFixed(1)} MB`;
}

/** A number with its noun. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString('en')} ${number === 1 ? one : many}`;
}

/** The time of day, with milliseconds. */
export function clockTime(at: number): string {
  return new Date(at).toISOString().slice(11, 23);
}

/**
 * Shows characters that would be invisible or change the direction of text as escapes, so that what a server sends looks
 * like what it is.
 */
export function visible(text: string): string {
  // The type is what the console promises; a saved file may hold anything.
  return String(text).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (char) =>
    char === '\n' || char === '\t'
      ? char
      : Array.from(
          { length: char.length },
          (_, at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, '0')}`,
        ).join(''),
  );
}

/** Saves a text as a file. */
export function download(name: string, text: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Lets the user pick a JSON file. Resolves to undefined if it is not JSON. */
export async function readJsonFile(input: HTMLInputElement): Promise<unknown> {
  const file = input.files?.[0];
  input.value = '';
  if (!file) return undefined;
  try {
    return JSON.parse(await file.text());
  } catch {
    return null;
  }
}

/** The end of a path, which says more than its beginning. Other names stay as they are. */
export function shortName(name: string): string {
  const parts = name.split('/');
  return name.startsWith('/') && parts.length > 3 ? `…/${parts.slice(-2).join('/')}` : name;
}
