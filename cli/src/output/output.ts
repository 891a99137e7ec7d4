import { format } from 'node:util';
import pc from 'picocolors';

/** Colors, enabled if standard output is a terminal. No information is conveyed by color alone. */
export const colour = pc.createColors(process.stdout.isTTY === true && pc.isColorSupported);

/**
 * Characters that a terminal interprets or does not show: controls (C0, C1), line and paragraph separators, lone surrogates,
 * and all format characters, which can change the direction of text or hide it.
 */
const UNSHOWN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/**
 * Escapes text from a peer, a store or a file: each character that is not shown becomes `\\uXXXX`. With `keep: 'lines'`,
 * line feeds and tabs stay.
 */
export function clean(text: string, keep: 'lines' | 'nothing' = 'nothing'): string {
  return text.replace(UNSHOWN, (char) =>
    keep === 'lines' && (char === '\n' || char === '\t')
      ? char
      : Array.from({ length: char.length }, (_, at) => escapeUnit(char.charCodeAt(at))).join(''),
  );
}

function escapeUnit(unit: number): string {
  return `\\u${unit.toString(16).padStart(4, '0')}`;
}

/** Prints an escaped line. `style` adds colors after escaping, so that the text itself cannot. */
export function print(line = '', style: (escaped: string) => string = (escaped) => escaped): void {
  process.stdout.write(`${style(clean(line, 'lines'))}\n`);
}

/** Prints an escaped message to stderr, separate from the result. */
export function remark(line: string): void {
  process.stderr.write(`${clean(line, 'lines')}\n`);
}

/** Passes on what another program writes to stderr, escaped; it need not be whole lines. */
export function handOn(text: string): void {
  process.stderr.write(clean(text.replaceAll('\r\n', '\n'), 'lines'));
}

/** Escapes what the SDKs and the examples write to the console. Only `console.log` goes to standard output. */
export function escapeConsole(): void {
  console.log = (...parts: unknown[]) => print(format(...parts));
  for (const name of ['debug', 'info', 'warn', 'error'] as const)
    console[name] = (...parts: unknown[]) => remark(format(...parts));
}

/** Prints a value as JSON on one line. */
export function printJson(value: unknown): void {
  // JSON leaves some control characters unescaped; their escapes mean the same.
  print(clean(JSON.stringify(value)));
}

/** Settings of a table. */
interface TableSettings {
  /** A column of ids: it is truncated last, and never so far that two ids look the same. */
  readonly idColumn?: number;
}

/** Prints rows under headings, with columns aligned and truncated to fit a terminal; prints `empty` if there are none. */
export function printTable(
  headings: readonly string[],
  given: readonly (readonly string[])[],
  empty: string,
  { idColumn }: TableSettings = {},
): void {
  const rows = given.map((row) => row.map((cell) => clean(cell)));
  if (rows.length === 0) {
    print(empty);
    return;
  }
  const widths = fitted(
    headings.map((heading, at) => Math.max(heading.length, ...rows.map((row) => (row[at] ?? '').length))),
    headings.map((_, at) =>
      at === idColumn ? prefixLength(rows.map((row) => row[at] ?? '')) + 1 : NARROWEST_COLUMN,
    ),
    process.stdout.isTTY ? process.stdout.columns : Number.POSITIVE_INFINITY,
    idColumn,
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, at) => cut(cell, widths[at] ?? 0).padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd();
  print(line(headings), colour.bold);
  for (const row of rows) print(line(row));
}

const NARROWEST_COLUMN = 8;

/** Returns column widths that fit a terminal: the widest column shrinks first, ids shrink last. */
function fitted(
  wanted: readonly number[],
  least: readonly number[],
  available: number,
  idColumn: number | undefined,
): number[] {
  const widths = wanted.map((width) => Math.min(width, available));
  const gap = 2 * (widths.length - 1);
  while (widths.reduce((sum, width) => sum + width, gap) > available) {
    const giving = [...widths.keys()].filter((at) => (widths[at] ?? 0) > (least[at] ?? 0));
    const others = giving.filter((at) => at !== idColumn);
    const widest = Math.max(...(others.length > 0 ? others : giving).map((at) => widths[at] ?? 0));
    const at = (others.length > 0 ? others : giving).find((each) => widths[each] === widest);
    if (at === undefined) break;
    widths[at] = widest - 1;
  }
  return widths;
}

/** Returns how many leading characters distinguish these texts from each other; at least eight. */
function prefixLength(texts: readonly string[]): number {
  const distinct = new Set(texts).size;
  const longest = Math.max(...texts.map(({ length }) => length));
  for (let length = NARROWEST_COLUMN; length < longest; length++)
    if (new Set(texts.map((text) => text.slice(0, length))).size === distinct) return length;
  return longest;
}

/** Truncates a text to `most` characters. */
export function cut(text: string, most: number): string {
  // Half of a surrogate pair is not a character.
  return text.length <= most
    ? text
    : `${text.slice(0, Math.max(most - 1, 0)).replace(/[\ud800-\udbff]$/, '')}…`;
}

/** Formats a time for people, e.g. `2026-11-15 22:30:05Z`; `-` if it is missing or invalid. */
export function when(time: number | string | undefined): string {
  const date = new Date(time ?? Number.NaN);
  return Number.isNaN(date.getTime()) ? '-' : `${date.toISOString().slice(0, 19).replace('T', ' ')}Z`;
}

const RELATIVE = new Intl.RelativeTimeFormat('en');

/** Formats the time left, e.g. `in 9 minutes`, rounded down; `-` if there is no time. */
export function until(time: Date | undefined): string {
  if (!time) return '-';
  const seconds = Math.max(0, Math.floor((time.getTime() - Date.now()) / 1000));
  if (seconds < 60) return RELATIVE.format(seconds, 'second');
  if (seconds < 7200) return RELATIVE.format(Math.floor(seconds / 60), 'minute');
  if (seconds < 172_800) return RELATIVE.format(Math.floor(seconds / 3600), 'hour');
  return RELATIVE.format(Math.floor(seconds / 86_400), 'day');
}

/** Formats a size for people. */
export function size(bytes: number): string {
  return bytes < 1024
    ? `${bytes} B`
    : bytes < 1024 * 1024
      ? `${(bytes / 1024).toFixed(1)} KB`
      : `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

/** Formats a word for a shell, quoted only if necessary. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./…-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/**
 * Tells a person at a terminal that this command expects a program on stdin, and what to do; otherwise it would seem to
 * hang.
 */
export function tellPerson(next: string): void {
  if (process.stdin.isTTY)
    remark(`valise: waiting for a program that speaks MCP on standard input. Ctrl+D ends it. ${next}`);
}
