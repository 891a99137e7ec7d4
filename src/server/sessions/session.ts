import type { Json } from '../../core/json.ts';
import type { Params } from '../../wire/index.ts';
import type { InputOf, ObjectSchema, OutputOf, StandardSchema } from '../jar/schema.ts';
import type { Printed } from '../jar/types.ts';
import type { Principal } from '../principal.ts';

/** Values by key. All methods are synchronous: the state is loaded, and changes are saved when the call is answered. */
export interface SessionValues {
  /** Returns a copy of the value, or undefined if there is none. Call `set` to save changes to it. */
  get<Value = Json>(key: string): Value | undefined;
  /** Returns the value as a schema reads it, or undefined if it does not fit. */
  get<Schema extends StandardSchema>(key: string, schema: Schema): OutputOf<Schema> | undefined;
  /** Replaces the whole value. `null` deletes it. */
  set<Value extends Json>(key: string, value: Value): void;
  set<Value>(key: string, value: Printed<Value>): void;
  delete(key: string): void;
  has(key: string): boolean;
  keys(): string[];
}

/** A part of a session's state that is separate from all others. */
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
  /** Whether it is a default session, because the client does not support sessions. */
  readonly implicit: boolean;
  /** Returns state that is separate from the session's own and from every other namespace. */
  namespace(name: string): SessionNamespace;
  /** Ends the session for everybody once this call is answered, whatever the answer. */
  revoke(): void;
  /** Notifies the listeners of this session, on every instance. */
  notify(method: string, params?: Params): Promise<void>;
}

/** A {@link Session} whose keys have the types of the declared schema. Keys that the schema does not have hold any JSON. */
export interface TypedSession<Schema extends ObjectSchema> extends Session {
  get<Key extends keyof OutputOf<Schema> & string>(key: Key): OutputOf<Schema>[Key] | undefined;
  get<Value = Json>(key: string): Value | undefined;
  get<Read extends StandardSchema>(key: string, schema: Read): OutputOf<Read> | undefined;
  set<Key extends string, Value extends Json>(key: Key, value: Settable<InputOf<Schema>, Key, Value>): void;
  set<Key extends string, Value>(key: Key, value: Settable<InputOf<Schema>, Key, Printed<Value>>): void;
}

/** The type that a schema accepts under a key, else `Value`. */
type Settable<Input, Key, Value> = Key extends keyof Input ? Exclude<Input[Key], undefined> : Value;

/** A session that is about to begin. Values set here are its first state. */
export interface NewSession extends SessionValues {
  readonly id: string;
  readonly label: string | undefined;
  readonly expiresAt: Date;
  /** Whether it is the default session of a client that does not support sessions. */
  readonly implicit: boolean;
  /** The id of the session that it was forked from, whose state it starts with. */
  readonly parent: string | undefined;
  namespace(name: string): SessionValues;
}

/** A client that wants to listen. */
export interface NewListener {
  /** The principal, if known. */
  readonly principal: Principal | undefined;
  /** The id of the session whose notifications are requested, or undefined for those that belong to no session. */
  readonly session: string | undefined;
  /** The resources whose updates are requested too. */
  readonly resources: readonly string[];
}

/** Why a session ended. */
export type EndReason =
  /** The client deleted it. */
  | 'deleted'
  /** The server revoked it. */
  | 'revoked'
  /** Its lifetime was over. */
  | 'expired'
  /** Its owner had too many sessions. */
  | 'evicted'
  /** It was a default session, and its connection or transport session ended. */
  | 'closed';

/** A session that has ended. */
export interface EndedSession {
  readonly id: string;
  readonly label: string | undefined;
  readonly reason: EndReason;
  /** Returns a value of the session's own final state. Only stored sessions have one, since sealed state is with the client. */
  get(key: string): unknown;
}
