import { isObject } from '../json.ts';
import { MAX_DEPTH } from '../wire/index.ts';

/** An argument that a tool also requires as a header. */
export interface MarkedArgument {
  readonly path: readonly string[];
  readonly header: string;
}

const MARK = 'x-mcp-header';
const PREFIX = 'Mcp-Param-';
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const TYPES: ReadonlySet<unknown> = new Set(['string', 'integer', 'boolean']);

/**
 * Returns the arguments that a tool's schema marks with `x-mcp-header`. Returns none if one of the marks breaks the rules:
 * such a tool must not be called with headers, because an unintended header must never be sent.
 */
export function markedArguments(schema: unknown): readonly MarkedArgument[] {
  const found: MarkedArgument[] = [];
  if (!collect(schema, [], found)) return [];
  const names = new Set(found.map(({ header }) => header.toLowerCase()));
  return names.size === found.length ? found : [];
}

function collect(schema: unknown, path: readonly string[], found: MarkedArgument[]): boolean {
  if (!isObject(schema)) return true;
  const mark = schema[MARK];
  if (mark !== undefined) {
    const isGood =
      path.length > 0 && typeof mark === 'string' && TOKEN.test(mark) && TYPES.has(schema['type']);
    if (!isGood) return false;
    found.push({ path, header: PREFIX + mark });
  }
  const { properties } = schema;
  if (!isObject(properties) || path.length >= MAX_DEPTH) return true;
  return Object.entries(properties).every(([key, child]) => collect(child, [...path, key], found));
}

/** Returns the headers of one call. An argument that is absent, `null`, an object, a list or an inexact number has none. */
export function paramHeaders(marked: readonly MarkedArgument[], args: unknown): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const { path, header } of marked) {
    const text = textOf(at(args, path));
    if (text !== undefined) headers[header] = needsCode(text) ? coded(text) : text;
  }
  return headers;
}

function at(args: unknown, path: readonly string[]): unknown {
  let value = args;
  for (const key of path) {
    if (!isObject(value) || !Object.hasOwn(value, key)) return undefined;
    value = value[key];
  }
  return value;
}

function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  if (typeof value === 'boolean' || (typeof value === 'number' && isExact(value))) return String(value);
  return undefined;
}

function isExact(value: number): boolean {
  return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
}

/**
 * Whether a text must be encoded. HTTP carries visible ASCII and inner whitespace unchanged. A text that looks encoded must
 * be encoded too, so that it is not decoded by mistake.
 */
function needsCode(text: string): boolean {
  return !/^[\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?$/.test(text) || /^=\?base64\?.*\?=$/.test(text);
}

function coded(text: string): string {
  return `=?base64?${Buffer.from(text, 'utf8').toString('base64')}?=`;
}
