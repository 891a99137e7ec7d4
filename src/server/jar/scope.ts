import { ValiseError } from '../../errors.ts';
import type { Json } from '../../json.ts';
import type { Scope } from '../../wire/index.ts';
import type { JarKey, Key, Keys } from './key.ts';
import { issuesText, type SchemaResult, type StandardSchema, validate } from './schema.ts';
import type { Change, Changes, Report, Source } from './source.ts';
import { copyOf, snapshot } from './value.ts';

type Named = string | JarKey<unknown>;

/** The data and services of a scope. */
export interface ScopeFacts {
  readonly source: Source;
  readonly keys: Keys;
  readonly report: Report;
  /** Whether the request has been answered, so that nothing more can be sent with its result. */
  readonly answered: () => boolean;
}

/** One scope of one request. It reads from its source on demand, and collects changes. */
export class ScopedState {
  readonly #scope: Scope;
  readonly #facts: ScopeFacts;
  /** Values that were read or set and have not been handed out to anybody who could change them. */
  readonly #read = new Map<string, unknown>();
  readonly #changes = new Map<string, Change>();

  constructor(scope: Scope, facts: ScopeFacts) {
    this.#scope = scope;
    this.#facts = facts;
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
    const { source, keys } = this.#facts;
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
    const names = new Set([...this.#facts.source.names(), ...this.#changes.keys()]);
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
    const { source, keys, report } = this.#facts;
    const key = keys.of(this.#scope, name);
    const change = this.#changes.get(name);
    const json = change === undefined ? source.read(name, key) : change && copyOf(change.json);
    if (json === undefined || json === null || !key.schema) return json ?? undefined;
    const result = attempt(key.schema, name, json);
    if (!result.issues) return result.value;
    report(name, `does not fit its schema: ${issuesText(result.issues)}`);
    return undefined;
  }

  #checkOpen(name: string): void {
    if (!this.#facts.answered()) return;
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
