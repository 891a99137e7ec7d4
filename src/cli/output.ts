import pc from 'picocolors';

/** Colours, where standard output is a terminal; never the only sign of anything. */
export const colour = pc.createColors(process.stdout.isTTY === true && pc.isColorSupported);

/**
 * Text of somebody else, harmless on a terminal: control characters, with which it could move the cursor, set colours or
 * forge lines, are spelled out. Line ends and tabs stay where `keep` says so.
 */
export function clean(text: string, keep: 'lines' | 'nothing' = 'nothing'): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, (char) =>
    keep === 'lines' && (char === '\n' || char === '\t')
      ? char
      : `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Prints a line. */
export function print(line = ''): void {
  process.stdout.write(`${line}\n`);
}

/** Prints a remark that is not part of the result. */
export function remark(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** Prints a value as JSON on one line. */
export function printJson(value: unknown): void {
  // JSON leaves some control characters as they are; spelled out they mean the same.
  print(clean(JSON.stringify(value)));
}

/** Prints rows under their headings, columns aligned; says `empty` where there are none. */
export function printTable(
  headings: readonly string[],
  given: readonly (readonly string[])[],
  empty: string,
): void {
  const rows = given.map((row) => row.map((cell) => clean(cell)));
  if (rows.length === 0) {
    print(empty);
    return;
  }
  const widths = headings.map((heading, at) =>
    Math.max(heading.length, ...rows.map((row) => (row[at] ?? '').length)),
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd();
  print(colour.bold(line(headings)));
  for (const row of rows) print(line(row));
}

/** A time as people read it, e.g. `2026-11-15 22:30:05Z`; `-` for none, and for what cannot be one. */
export function when(time: number | string | undefined): string {
  const date = new Date(time ?? Number.NaN);
  return Number.isNaN(date.getTime()) ? '-' : `${date.toISOString().slice(0, 19).replace('T', ' ')}Z`;
}

/** A size as people read it. */
export function size(bytes: number): string {
  return bytes < 1024
    ? `${bytes} B`
    : bytes < 1024 * 1024
      ? `${(bytes / 1024).toFixed(1)} KB`
      : `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}
