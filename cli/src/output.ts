import { format } from 'node:util';
import pc from 'picocolors';

/** Colours, where standard output is a terminal; never the only sign of anything. */
export const colour = pc.createColors(process.stdout.isTTY === true && pc.isColorSupported);

/**
 * Characters that a terminal acts on or does not show: controls (C0, C1), line and paragraph separators, lone surrogates, and
 * all format characters, with which text changes its direction or hides.
 */
const UNSHOWN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/**
 * Text from a peer, a store or a file, made harmless: each character that is not shown is spelled as `\\uXXXX`. With
 * `keep: 'lines'`, line feeds and tabs stay.
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

/** Prints a line, escaped. `style` adds colours afterwards, so that nobody else can. */
export function print(line = '', style: (escaped: string) => string = (escaped) => escaped): void {
  process.stdout.write(`${style(clean(line, 'lines'))}\n`);
}

/** Prints a remark that is not part of the result, escaped. */
export function remark(line: string): void {
  process.stderr.write(`${clean(line, 'lines')}\n`);
}

/** Hands on what another program writes to stderr, escaped; it need not be whole lines. */
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
  // JSON leaves some control characters as they are; spelled out they mean the same.
  print(clean(JSON.stringify(value)));
}

/** What a table may do to fit. */
interface TableSettings {
  /** A column of ids: it is cut last, and never so far that two of them look the same. */
  readonly idColumn?: number;
}

/** Prints rows under their headings, columns aligned and cut to fit a terminal; says `empty` if there are none. */
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

/** The widths of columns in a terminal: the widest gives way first, ids give way last. */
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

/** How many characters tell each of these texts from the others; at least eight. */
function prefixLength(texts: readonly string[]): number {
  const distinct = new Set(texts).size;
  const longest = Math.max(...texts.map(({ length }) => length));
  for (let length = NARROWEST_COLUMN; length < longest; length++)
    if (new Set(texts.map((text) => text.slice(0, length))).size === distinct) return length;
  return longest;
}

/** A text in at most so many characters. */
export function cut(text: string, most: number): string {
  // Half of a pair is no character.
  return text.length <= most
    ? text
    : `${text.slice(0, Math.max(most - 1, 0)).replace(/[\ud800-\udbff]$/, '')}…`;
}

/** A time as people read it, e.g. `2026-11-15 22:30:05Z`; `-` for none, and for what cannot be one. */
export function when(time: number | string | undefined): string {
  const date = new Date(time ?? Number.NaN);
  return Number.isNaN(date.getTime()) ? '-' : `${date.toISOString().slice(0, 19).replace('T', ' ')}Z`;
}

const RELATIVE = new Intl.RelativeTimeFormat('en');

/** How long it is until a time, e.g. `in 9 minutes`, never more than is left; `-` if there is none. */
export function until(time: Date | undefined): string {
  if (!time) return '-';
  const seconds = Math.max(0, Math.floor((time.getTime() - Date.now()) / 1000));
  if (seconds < 60) return RELATIVE.format(seconds, 'second');
  if (seconds < 7200) return RELATIVE.format(Math.floor(seconds / 60), 'minute');
  if (seconds < 172_800) return RELATIVE.format(Math.floor(seconds / 3600), 'hour');
  return RELATIVE.format(Math.floor(seconds / 86_400), 'day');
}

/** A size as people read it. */
export function size(bytes: number): string {
  return bytes < 1024
    ? `${bytes} B`
    : bytes < 1024 * 1024
      ? `${(bytes / 1024).toFixed(1)} KB`
      : `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}
