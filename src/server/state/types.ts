import type { Json } from '../../json.ts';
import type { Given, Held, KeyDeclarations, StateDeclarations, StateKey } from './key.ts';
import type { StandardSchema } from './schema.ts';

/**
 * The state of one scope, inside a handler. Nothing here waits: what a request came with is at hand, and what is set
 * goes out with its result. A JSON-RPC error carries no state, so what is set before one is forgotten. Where a tool of
 * `McpServer` throws, the SDK answers with a result that says `isError`: that is a result, and carries what was set.
 *
 * As such it may be of any server, whose schemas may have made anything of a value; see {@link TypedScope}.
 */
export interface StateScope {
  /**
   * The value; undefined where there is none, or none that this server made or that fits the key's schema. What is returned
   * is a copy, another one each time: set it to keep changes in it.
   */
  get<Input, Output>(key: StateKey<Input, Output>): Output | undefined;
  get<Value = unknown>(name: string): Value | undefined;
  /** Replaces the whole value. `null` deletes. */
  set<Input, Output>(key: StateKey<Input, Output>, value: Exclude<NoInfer<Input>, undefined>): void;
  set<Value extends Json>(name: string, value: Value): void;
  set<Value>(name: string, value: Printed<Value>): void;
  /** Removes the value, also one that cannot be read. */
  delete(key: string | StateKey<unknown>): void;
  /** True where `get` would give a value. */
  has(key: string | StateKey<unknown>): boolean;
  /** The names for which `has` is true. */
  keys(): string[];
}

/** {@link StateScope} of a server whose declarations are known: names have the types of their schemas, and are any JSON without one. */
export interface TypedScope<Keys extends KeyDeclarations> extends StateScope {
  get<Input, Output>(key: StateKey<Input, Output>): Output | undefined;
  get<Name extends keyof Keys & string>(name: Name): Held<Keys[Name]> | undefined;
  get<Value = Json>(name: string): Value | undefined;
  set<Input, Output>(key: StateKey<Input, Output>, value: Exclude<NoInfer<Input>, undefined>): void;
  set<Name extends string, Value extends Json>(name: Name, value: Settable<Keys, Name, Value>): void;
  set<Name extends string, Value>(name: Name, value: Settable<Keys, Name, Printed<Value>>): void;
}

/** Both scopes of a request's state. */
export interface RequestState {
  /** Lives until the client's session ends. */
  readonly session: StateScope;
  /** Lives until the server removes it, across sessions; a client may still forget it. */
  readonly server: StateScope;
}

/** {@link RequestState} of a server whose declarations are known. */
export interface TypedState<Declared extends StateDeclarations> extends RequestState {
  readonly session: TypedScope<KeysOf<Declared['session']>>;
  readonly server: TypedScope<KeysOf<Declared['server']>>;
}

/** What JSON can write, also where its type is an interface, which is no {@link Json} to the compiler. */
export type Printable<Value> = Value extends (...args: never[]) => unknown
  ? never
  : Value extends Json | undefined
    ? Value
    : Value extends readonly (infer Item)[]
      ? undefined extends Item
        ? never
        : { readonly [At in keyof Value]: Printable<Value[At]> }
      : Value extends object
        ? { readonly [Name in keyof Value]: Printable<Value[Name]> }
        : never;

/** A value as far as it is {@link Printable}. */
export type Printed<Value> = Value & Exclude<Printable<Value>, undefined>;

/** What the schema of a name takes; else `Value`. */
type Settable<Keys extends KeyDeclarations, Name, Value> = Name extends keyof WithSchema<Keys>
  ? Exclude<Given<Keys[Name]>, undefined>
  : Value;

/** The names whose schema says what may be set. */
type WithSchema<Keys extends KeyDeclarations> = {
  readonly [Name in keyof Keys as Keys[Name] extends { readonly schema: StandardSchema } ? Name : never]: 1;
};

type KeysOf<Declared> = Declared extends KeyDeclarations ? Declared : Record<never, never>;
