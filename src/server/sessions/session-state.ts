import { ValiseError } from '../../core/errors.ts';
import { type Dict, dict, isEmpty, isObject, type Json } from '../../core/json.ts';
import { issuesText, type SchemaIssue, type StandardSchema, validate } from '../jar/schema.ts';
import { jsonText } from '../json-text.ts';

/** The state of a session: values by key, in namespaces. The namespace without a name is the session's own. */
export type Values = { readonly [namespace: string]: { readonly [key: string]: Json } };

/** The limits of a session's state. */
interface StateSettings {
  /** The maximum size, in bytes. */
  readonly maxState: number;
  /** The schema of the session's own values together. It does not cover namespaces. */
  readonly schema: StandardSchema | undefined;
}

const MAX_NAME = 256;

/**
 * The state of one session while one request works on it: what it was, what the handler read, and what it changed.
 *
 * All methods are synchronous, and nothing is saved before the commit.
 */
export class SessionState {
  #base: Values;
  readonly #maxBytes: number;
  /** The schema of the session's own values together. It does not cover namespaces. */
  readonly #schema: StandardSchema | undefined;
  readonly #reads = new Map<string, Set<string> | 'all'>();
  readonly #changes = new Map<string, Map<string, Json | undefined>>();

  constructor(base: Values, { maxState, schema }: StateSettings) {
    this.#base = base;
    this.#maxBytes = maxState;
    this.#schema = schema;
  }

  /** Whether any value has changed. */
  get isChanged(): boolean {
    for (const [namespace, changes] of this.#changes) {
      for (const [key, value] of changes) if (!isSame(at(this.#base, namespace, key), value)) return true;
    }
    return false;
  }

  /** Returns a copy, so that an author who changes it in place and sets it again does not change what it is compared with. */
  get(namespace: string, key: string): Json | undefined {
    const changes = this.#changes.get(namespace);
    if (changes?.has(key)) return copy(changes.get(key));
    const reads = this.#reads.get(namespace);
    if (reads === undefined) this.#reads.set(namespace, new Set([key]));
    else if (reads !== 'all') reads.add(key);
    return copy(at(this.#base, namespace, key));
  }

  /** Returns the value as the session's schema reads it, or undefined if it does not fit. */
  read(namespace: string, key: string): unknown {
    const value = this.get(namespace, key);
    if (!this.#schema || namespace !== '') return value;
    const result = validate(this.#schema, key, copy(this.#mergedIn('')));
    if (result.issues) return concerning(key, result.issues).length > 0 ? undefined : value;
    return isObject(result.value) && Object.hasOwn(result.value, key) ? result.value[key] : undefined;
  }

  set(namespace: string, key: string, value: Json | undefined): void {
    checkName('key', key);
    const json = value === undefined || value === null ? undefined : this.#snapshot(key, value);
    if (json !== undefined && namespace === '' && this.#schema) this.#check(this.#schema, key, json);
    const changes = this.#changes.get(namespace);
    if (changes) changes.set(key, json);
    else this.#changes.set(namespace, new Map([[key, json]]));
  }

  /** Throws if a value does not fit the schema together with the existing values. */
  #check(schema: StandardSchema, key: string, value: Json): void {
    const result = validate(schema, key, copy({ ...this.#mergedIn(''), [key]: value }));
    const issues = concerning(key, result.issues ?? []);
    if (issues.length === 0) return;
    throw new ValiseError(
      'invalid-argument',
      `The value for ${JSON.stringify(key)} does not fit the schema of the session: ${issuesText(issues)}.`,
      { next: 'Set what the schema reads, as JSON.' },
    );
  }

  keys(namespace: string): string[] {
    this.#reads.set(namespace, 'all');
    return Object.keys(this.#mergedIn(namespace));
  }

  /** Returns the state with all changes applied. */
  merged(): Values {
    if (this.#changes.size === 0) return this.#base;
    const all: Dict<Dict> = Object.assign(dict<Dict>(), this.#base);
    for (const namespace of this.#changes.keys()) {
      const values = this.#mergedIn(namespace);
      if (isEmpty(values)) delete all[namespace];
      else all[namespace] = values;
    }
    return all;
  }

  /** Returns the merged state for saving. Throws if a change makes it larger than the server allows. */
  checked(): Values {
    const all = this.merged();
    if (this.#changes.size > 0) checkSize(JSON.stringify(all), this.#maxBytes);
    return all;
  }

  /**
   * Applies the changes to fresh state.
   *
   * Returns false if a value that the handler read has changed. Its writes then rest on outdated values, and it must run again.
   */
  rebase(fresh: Values): boolean {
    for (const [namespace, keys] of this.#reads) {
      if (keys === 'all') {
        if (JSON.stringify(own(fresh, namespace)) !== JSON.stringify(own(this.#base, namespace)))
          return false;
        continue;
      }
      for (const key of keys)
        if (!isSame(at(this.#base, namespace, key), at(fresh, namespace, key))) return false;
    }
    this.#base = fresh;
    return true;
  }

  /** Returns the values of one namespace with all changes applied. */
  #mergedIn(namespace: string): Dict {
    const values = Object.assign(dict(), own(this.#base, namespace));
    for (const [key, value] of this.#changes.get(namespace) ?? []) {
      if (value === undefined) delete values[key];
      else values[key] = value;
    }
    return values;
  }

  /** Returns the value as it will be read back: plain JSON, detached from the author's own object. */
  #snapshot(key: string, value: Json): Json {
    const text = jsonText(`The value for ${JSON.stringify(key)}`, value);
    checkSize(text, this.#maxBytes);
    return typeof value === 'object' ? (JSON.parse(text) as Json) : value;
  }
}

/** Returns the issues about one value, or about all together. Other values may not be set yet. */
function concerning(key: string, issues: readonly SchemaIssue[]): readonly SchemaIssue[] {
  return issues.filter(({ path: [first] = [] }) => {
    const at = typeof first === 'object' ? first.key : first;
    return at === undefined || String(at) === key;
  });
}

/** Throws if the state, as JSON, is larger than the server allows. */
function checkSize(text: string, most: number): void {
  const bytes = Buffer.byteLength(text);
  if (bytes <= most) return;
  throw new ValiseError(
    'too-large',
    `The state of the session would take ${bytes} bytes; ${most} is the most.`,
    {
      next: 'Keep what is large in a database of your own, and its id in the session; or raise sessions.maxState.',
    },
  );
}

/** Throws if a key or namespace is not a valid name. */
export function checkName(kind: 'key' | 'namespace', name: string): void {
  if (typeof name === 'string' && name !== '' && name.length <= MAX_NAME) return;
  throw new ValiseError('invalid-argument', `The ${kind} of a session's state is not a usable name.`, {
    next: `Give a text of 1 to ${MAX_NAME} characters.`,
  });
}

/** Reads state from a seal or a store. Both are our own, but may be of another version. */
export function readValues(value: unknown): Values | undefined {
  if (!isObject(value)) return undefined;
  for (const namespace in value) if (!isObject(value[namespace])) return undefined;
  return value as Values;
}

function at(data: Values, namespace: string, key: string): Json | undefined {
  const values = own(data, namespace);
  return values && Object.hasOwn(values, key) ? values[key] : undefined;
}

function own(data: Values, namespace: string): { readonly [key: string]: Json } | undefined {
  return Object.hasOwn(data, namespace) ? data[namespace] : undefined;
}

function isSame(a: Json | undefined, b: Json | undefined): boolean {
  return (
    a === b || (typeof a === 'object' && typeof b === 'object' && JSON.stringify(a) === JSON.stringify(b))
  );
}

function copy<Value extends Json | undefined>(value: Value): Value {
  return typeof value === 'object' ? (JSON.parse(JSON.stringify(value)) as Value) : value;
}
