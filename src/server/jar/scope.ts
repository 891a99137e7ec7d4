import { ValiseError } from '../../core/errors.ts';
import type { Json } from '../../core/json.ts';
import type { Scope } from '../../wire/index.ts';
import type { Exchange } from '../exchange.ts';
import { jsonText } from '../json-text.ts';
import type { JarKey, Key, Keys } from './keys.ts';
import { issuesText, type SchemaResult, type StandardSchema, validate } from './schema.ts';

/** The state that a request came with, in one scope: from the client, or from the server's store. */
export interface Source {
  /** Returns the names that exist, whether or not their values can be read. */
  names(): Iterable<string>;
  /** Returns a new copy of the value, or undefined if there is none or it cannot be read (which is reported). */
  read(name: string, key: Key): Json | undefined;
  /** Throws if nothing that is set could be stored. */
  checkWritable(): void;
}

/** A handler's change to a name: the value that it set, or null if it deleted it. */
export type Change = { readonly json: Json } | null;

/** The changes of one scope, by name. */
export type Changes = ReadonlyMap<string, Change>;

/** Reports that a value that came back was refused. */
export type Report = (scope: Scope, name: string, reason: string) => void;

/** The bytes of name and value that every client that stores state should accept. It may refuse more. */
export const SAFE_BYTES = 4096;

/** The maximum size of a value, since all of it would travel with every request. */
const MAX_BYTES = 65_536;

type Named = string | JarKey<unknown>;

/** Options of {@link ScopedState}. */
export interface ScopedStateOptions {
  readonly source: Source;
  readonly keys: Keys;
  readonly report: Report;
  /** The request. Once it has been answered, nothing more can be sent with its result. */
  readonly exchange: Pick<Exchange, 'isAnswered'>;
}

/** One scope of one request. It reads from its source on demand, and collects changes. */
export class ScopedState {
  readonly #scope: Scope;
  readonly #options: ScopedStateOptions;
  /** Values that were read or set and have not been handed out to anybody who could change them. */
  readonly #read = new Map<string, unknown>();
  readonly #changes = new Map<string, Change>();

  constructor(scope: Scope, options: ScopedStateOptions) {
    this.#scope = scope;
    this.#options = options;
  }

  // The public interface types each key. Here a value is what its source or its schema returned.
  get(named: Named): unknown {
    const name = nameOf(named);
    const value = this.#look(name);
    if (typeof value === 'object') this.#read.delete(name);
    return value;
  }

  set(named: Named, value: unknown): void {
    const name = nameOf(named);
    if (value === null) {
      this.delete(name);
      return;
    }
    this.#checkOpen(name);
    const { source, keys } = this.#options;
    source.checkWritable();
    const key = keys.of(this.#scope, name);
    const json = snapshot(name, value, key.schema !== undefined);
    this.#read.set(name, accepted(name, json, key));
    this.#changes.set(name, { json });
  }

  delete(named: Named): void {
    const name = nameOf(named);
    this.#checkOpen(name);
    this.#read.delete(name);
    this.#changes.set(name, null);
  }

  has(named: Named): boolean {
    return this.#look(nameOf(named)) !== undefined;
  }

  keys(): string[] {
    const names = new Set([...this.#options.source.names(), ...this.#changes.keys()]);
    return [...names].filter((name) => this.has(name));
  }

  /** The changes of the handler so far. */
  get changes(): Changes {
    return this.#changes;
  }

  #look(name: string): unknown {
    if (!this.#read.has(name)) this.#read.set(name, this.#fitting(name));
    return this.#read.get(name);
  }

  #fitting(name: string): unknown {
    const { source, keys, report } = this.#options;
    const key = keys.of(this.#scope, name);
    const change = this.#changes.get(name);
    const json = change === undefined ? source.read(name, key) : change && copyOf(change.json);
    if (json === undefined || json === null || !key.schema) return json ?? undefined;
    const result = attempt(key.schema, name, json);
    if (!result.issues) return result.value;
    report(this.#scope, name, `does not fit its schema: ${issuesText(result.issues)}`);
    return undefined;
  }

  #checkOpen(name: string): void {
    if (!this.#options.exchange.isAnswered) return;
    throw new ValiseError(
      'outside-request',
      `State ${JSON.stringify(name)} was changed after its request had been answered.`,
      { next: 'Change state before the handler returns: it travels with the result.' },
    );
  }
}

/** Validates a value. If the schema throws, for example because it is asynchronous, the value counts as invalid. */
function attempt(schema: StandardSchema, name: string, json: Json): SchemaResult<unknown> {
  try {
    return validate(schema, name, json);
  } catch {
    return { issues: [{ message: 'it could not be read' }] };
  }
}

/** Returns what `get` will return from now on. Throws if the author's own value would not be readable again. */
function accepted(name: string, json: Json, { schema }: Key): unknown {
  const own = copyOf(json);
  if (!schema) return own;
  const result = validate(schema, name, own);
  if (!result.issues) return result.value;
  throw new ValiseError(
    'invalid-argument',
    `The value for state ${JSON.stringify(name)} does not fit its schema: ${issuesText(result.issues)}.`,
    { next: 'Set what the schema reads, as JSON.' },
  );
}

function nameOf(named: Named): string {
  const name: unknown = typeof named === 'object' && named !== null ? named.name : named;
  if (typeof name === 'string') return name;
  throw new ValiseError('invalid-argument', 'The name of a piece of state is not text.', {
    next: 'Give a text, or a key made with valise.jar.key().',
  });
}

/**
 * Returns a copy of the value as it will be read back: plain JSON.
 *
 * Later changes that the author makes to the original are not sent. `reader` says that a schema reads what comes back.
 */
function snapshot(name: string, value: unknown, reader: boolean): Json {
  const text = jsonText(`The value for state ${JSON.stringify(name)}`, value, reader);
  const bytes = sizeOf(name, text);
  if (bytes > MAX_BYTES) {
    throw new ValiseError(
      'too-large',
      `State ${JSON.stringify(name.slice(0, 80))} would take ${bytes} bytes; ${MAX_BYTES} is the most, and ${SAFE_BYTES} what every client takes.`,
      { next: 'Keep what is large in a database of your own, and its id in the state.' },
    );
  }
  return JSON.parse(text) as Json;
}

/** Returns a copy, so that changes that the author makes to it are neither stored nor sent by accident. */
export function copyOf(value: Json): Json {
  return typeof value === 'object' ? structuredClone(value) : value;
}

/** Returns a copy of an unsealed value from the client, or undefined if it is larger than any value that can be set. */
export function fromClient(name: string, value: Json): Json | undefined {
  const text = JSON.stringify(value);
  if (sizeOf(name, text) > MAX_BYTES) return undefined;
  return typeof value === 'object' ? (JSON.parse(text) as Json) : value;
}

/** Returns the bytes of a name and a value's text. */
export function sizeOf(name: string, text: string): number {
  return Buffer.byteLength(name) + Buffer.byteLength(text);
}
