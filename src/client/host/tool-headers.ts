import { isObject } from '../../core/json.ts';
import { codecOf } from '../../wire/codec.ts';
import {
  CORE,
  MAX_DEPTH,
  type Meta,
  type Params,
  type Request,
  type Response,
  type Result,
} from '../../wire/index.ts';

const MOST_PAGES = 100;
/** The maximum number of tools whose headers are remembered, and the maximum length of their names. */
const MOST_TOOLS = 10_000;
const LONGEST_NAME = 1024;

/** Returns the members of a stateless request's `_meta` that describe its sender. */
function envelopeOf(meta: Meta): Meta {
  const keys = [CORE.protocolVersion, CORE.clientCapabilities, CORE.clientInfo];
  return Object.fromEntries(keys.filter((key) => key in meta).map((key) => [key, meta[key]]));
}

/** Knows which arguments each tool of a server requires as headers, from the tool lists that pass through. */
export class ToolHeaders {
  readonly #ask: (method: string, params: Params) => Promise<Response>;
  readonly #known = new Map<string, readonly MarkedArgument[]>();
  readonly #tell: (what: string) => void;
  #listing: Promise<void> | undefined;
  #isTold = false;

  /** Calls `tell` once if a server lists more than is remembered. */
  constructor(ask: (method: string, params: Params) => Promise<Response>, tell: (what: string) => void) {
    this.#ask = ask;
    this.#tell = tell;
  }

  /** Returns the headers of a request. Requests the tool list if the request calls an unknown tool. */
  async of(request: Request): Promise<Record<string, string>> {
    const { method, params } = request;
    if (method !== 'tools/call' || !codecOf(request).isStateless) return {};
    const name = String(params?.['name']);
    if (!this.#known.has(name)) await (this.#listing ??= this.#list(params?._meta ?? {}));
    return paramHeaders(this.#known.get(name) ?? [], params?.['arguments']);
  }

  /** Records a list of tools, or a page of it. */
  learn({ tools }: Result): void {
    for (const tool of Array.isArray(tools) ? tools : []) {
      const name = isObject(tool) ? tool['name'] : undefined;
      if (typeof name !== 'string') continue;
      const hasRoom = this.#known.size < MOST_TOOLS || this.#known.has(name);
      if (hasRoom && name.length <= LONGEST_NAME) this.#known.set(name, markedArguments(tool['inputSchema']));
      else this.#tellOnce();
    }
  }

  #tellOnce(): void {
    if (this.#isTold) return;
    this.#isTold = true;
    this.#tell(
      `The server lists more than ${MOST_TOOLS} tools, or names longer than ${LONGEST_NAME} characters. Calls of the others go without the headers they may want.`,
    );
  }

  /** Forgets all tools, because they have changed. */
  forget(): void {
    this.#known.clear();
    this.#listing = undefined;
  }

  async #list(meta: Meta): Promise<void> {
    const _meta = envelopeOf(meta);
    let cursor: unknown;
    for (let page = 0; page < MOST_PAGES; page++) {
      const response = await this.#ask('tools/list', { _meta, ...(cursor !== undefined && { cursor }) });
      if (!('result' in response)) {
        // The call continues without the headers, and the next one tries again.
        this.#listing = undefined;
        return;
      }
      this.learn(response.result);
      cursor = response.result['nextCursor'];
      if (typeof cursor !== 'string') return;
    }
  }
}

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
