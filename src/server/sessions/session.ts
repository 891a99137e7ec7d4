import type { Json } from '../../json.ts';
import type { Params } from '../../wire/index.ts';
import type { InputOf, ObjectSchema, OutputOf, StandardSchema } from '../state/schema.ts';
import type { Printed } from '../state/types.ts';

/** Values by key. Nothing here waits: what the session holds is at hand, and what is set is kept when the call is answered. */
export interface SessionValues {
  /** The value, or undefined where there is none. What is returned is a copy: set it to keep changes in it. */
  get<Value = Json>(key: string): Value | undefined;
  /** The value as a schema reads it; undefined if it does not fit. */
  get<Schema extends StandardSchema>(key: string, schema: Schema): OutputOf<Schema> | undefined;
  /** Replaces the whole value. `null` deletes. */
  set<Value extends Json>(key: string, value: Value): void;
  set<Value>(key: string, value: Printed<Value>): void;
  delete(key: string): void;
  has(key: string): boolean;
  keys(): string[];
}

/** A part of a session's state that other parts of the program do not disturb. */
export type SessionNamespace = SessionValues;

/**
 * The session that a request belongs to, inside its handler.
 *
 * @example
 * ```ts
 * const session = valise.session();
 * const notes = session?.get<string[]>('notes') ?? [];
 * session?.set('notes', [...notes, text]);
 * session?.namespace('prefs').set('language', 'de');
 * ```
 */
export interface Session extends SessionValues {
  readonly id: string;
  readonly label: string | undefined;
  readonly expiresAt: Date;
  /** True where the client knows no sessions and the transport's own stands in. */
  readonly implicit: boolean;
  /** State that is apart from the session's own and from every other namespace. */
  namespace(name: string): SessionNamespace;
  /** Ends the session as soon as this call is answered, whatever the answer: from then on nobody knows it. */
  revoke(): void;
  /** Tells those who listen to this session, on every instance. */
  notify(method: string, params?: Params): Promise<void>;
}

/** {@link Session} of a server that has declared a schema for it: keys have the types of the schema, and hold any JSON if it has none for them. */
export interface TypedSession<Schema extends ObjectSchema> extends Session {
  get<Key extends keyof OutputOf<Schema> & string>(key: Key): OutputOf<Schema>[Key] | undefined;
  get<Value = Json>(key: string): Value | undefined;
  get<Read extends StandardSchema>(key: string, schema: Read): OutputOf<Read> | undefined;
  set<Key extends string, Value extends Json>(key: Key, value: Settable<InputOf<Schema>, Key, Value>): void;
  set<Key extends string, Value>(key: Key, value: Settable<InputOf<Schema>, Key, Printed<Value>>): void;
}

/** What a schema takes under a key; else `Value`. */
type Settable<Input, Key, Value> = Key extends keyof Input ? Exclude<Input[Key], undefined> : Value;
