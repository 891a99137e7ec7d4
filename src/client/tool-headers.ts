import { isObject } from '../json.ts';
import {
  CORE,
  eraOf,
  type Meta,
  type Params,
  type Request,
  type Response,
  type Result,
} from '../wire/index.ts';
import { type MarkedArgument, markedArguments, paramHeaders } from './param-headers.ts';

const MOST_PAGES = 100;
/** The maximum number of tools whose headers are remembered, and the maximum length of their names. */
const MOST_TOOLS = 10_000;
const LONGEST_NAME = 1024;

/** Returns the members of a modern request's `_meta` that describe its sender. */
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
    if (method !== 'tools/call' || eraOf(request) !== 'modern') return {};
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
