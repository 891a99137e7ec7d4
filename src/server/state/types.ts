import type { Json } from '../../json.ts';
import type { Given, Held, KeyDeclarations, StateDeclarations, StateKey } from './key.ts';
import type { StandardSchema } from './schema.ts';

/**
 * The state of one scope, inside a handler. Nothing here waits: what a request came with is at hand, and what is set
 * goes out with its result. A JSON-RPC error carries no state, so what is set before one is forgotten. Where a tool of
 * `McpServer` throws, the SDK answers with a result that says `isError`: that is a result, and carries what was set.
 */
export interface StateScope<Keys extends KeyDeclarations = KeyDeclarations> {
  /**
   * The value; undefined where there is none, or none that this server made or that fits the key's schema. What is returned
   * is a copy, another one each time: set it to keep changes in it.
   */
  get<Input, Output>(key: StateKey<Input, Output>): Output | undefined;
  get<Name extends string>(name: Name): (Name extends keyof Keys ? Held<Keys[Name]> : Json) | undefined;
  /** Replaces the whole value. `null` deletes. */
  set<Input, Output>(key: StateKey<Input, Output>, value: NoInfer<Input>): void;
  set<Name extends string, Value>(
    name: Name,
    value: Name extends keyof WithSchema<Keys>
      ? Given<Keys[Name]>
      : Value & Exclude<Printable<Value>, undefined>,
  ): void;
  /** Removes the value, also one that cannot be read. */
  delete(key: string | StateKey<unknown>): void;
  /** True where `get` would give a value. */
  has(key: string | StateKey<unknown>): boolean;
  /** The names for which `has` is true. */
  keys(): string[];
}

/** Both scopes of a request's state. */
export interface RequestState<Declared extends StateDeclarations = StateDeclarations> {
  /** Lives until the client's session ends. */
  readonly session: StateScope<KeysOf<Declared['session']>>;
  /** Lives until the server removes it, across sessions; a client may still forget it. */
  readonly server: StateScope<KeysOf<Declared['server']>>;
}

/** The names whose schema says what may be set. */
type WithSchema<Keys extends KeyDeclarations> = {
  readonly [Name in keyof Keys as Keys[Name] extends { readonly schema: StandardSchema } ? Name : never]: 1;
};

/** What JSON can write, also where its type is an interface, which is no {@link Json} to the compiler. */
export type Printable<Value> = Value extends (...args: never[]) => unknown
  ? never
  : Value extends Json | undefined
    ? Value
    : Value extends object
      ? { readonly [Name in keyof Value]: Printable<Value[Name]> }
      : never;

type KeysOf<Declared> = Declared extends KeyDeclarations ? Declared : KeyDeclarations;
