import { isObject } from '../../core/json.ts';
import { checkArgument, type Taken } from '../../core/options.ts';
import { type Request, SESSION_KEY } from '../../wire/index.ts';
import type { Exchange } from '../exchange.ts';

/** An operation that can require a session. */
export type RequiredOperation =
  | string
  | { readonly tool: string }
  | { readonly prompt: string }
  /** A resource's URI. One that ends in `*` matches every URI with that prefix. */
  | { readonly resource: string };

const KEY = SESSION_KEY;

/**
 * Marks a tool, resource or prompt as needing a session, in the `_meta` of its config. Clients see it in the list.
 *
 * @example
 * ```ts
 * server.registerTool('notebook_append', { description, inputSchema, _meta: { ...sessionRequired } }, append);
 * ```
 */
export const sessionRequired: { readonly [KEY]: { readonly required: true } } = Object.freeze({
  [KEY]: Object.freeze({ required: true as const }),
});

const KINDS = ['tool', 'prompt', 'resource'] as const;

/** The parameter that names the subject of a method. */
const SUBJECTS: Readonly<Record<string, readonly [kind: (typeof KINDS)[number], param: string]>> = {
  'tools/call': ['tool', 'name'],
  'prompts/get': ['prompt', 'name'],
  'resources/read': ['resource', 'uri'],
  'resources/subscribe': ['resource', 'uri'],
};

const OPERATION: Taken = [
  'names, or { tool: name }, { prompt: name } or { resource: URI }',
  (value) =>
    typeof value === 'string' || (isObject(value) && KINDS.some((kind) => typeof value[kind] === 'string')),
];

/** The operations that need a session. */
export class RequiredSessions {
  readonly #names = new Set<string>();
  readonly #prefixes = new Set<string>();

  add(operations: readonly RequiredOperation[]): void {
    for (const each of operations) {
      checkArgument('valise.sessions.require()', each, OPERATION);
      const [kind, name] =
        typeof each === 'string' ? ['any', each] : (Object.entries(each)[0] as [string, string]);
      if (name.endsWith('*')) this.#prefixes.add(`${kind} ${name.slice(0, -1)}`);
      else this.#names.add(`${kind} ${name}`);
    }
  }

  /** Whether the operation needs a session, because it was declared by name or by its own config. */
  includes(exchange: Exchange, request: Request = exchange.request): boolean {
    const subject = Object.hasOwn(SUBJECTS, request.method) ? SUBJECTS[request.method] : undefined;
    if (!subject) return false;
    const [kind, param] = subject;
    const name = request.params?.[param];
    if (typeof name !== 'string') return false;
    if (this.#names.has(`any ${name}`) || this.#names.has(`${kind} ${name}`)) return true;
    for (const prefix of this.#prefixes) {
      if (`any ${name}`.startsWith(prefix) || `${kind} ${name}`.startsWith(prefix)) return true;
    }
    const declared = exchange.configOf(request)?.[KEY];
    return isObject(declared) && declared['required'] === true;
  }
}

/** Whether one of the author's handlers answers the method, and a session may be of use in it. */
export function isOperation(method: string): boolean {
  return Object.hasOwn(SUBJECTS, method);
}
