import type { Json } from '../../core/json.ts';
import type { Given, Held, JarDeclarations, JarKey, KeyDeclarations, KeySettings } from './keys.ts';
import type { StandardSchema } from './schema.ts';

/**
 * The state of one scope, inside a handler.
 *
 * All methods are synchronous: the request's state is loaded, and changes are sent with its result. A JSON-RPC error carries no
 * state, so changes made before one are discarded. If a tool of `McpServer` throws, the SDK returns a result with `isError`,
 * which does carry the changes.
 *
 * This type may belong to any server, whose schemas may produce any value; see {@link TypedJarScope}.
 */
export interface JarScope {
  /**
   * Returns the value, or undefined if there is none that this server made and that fits the key's schema.
   *
   * Each call returns a new copy. Call `set` to save changes to it.
   */
  get<Input, Output>(key: JarKey<Input, Output>): Output | undefined;
  get<Value = unknown>(name: string): Value | undefined;
  /** Replaces the whole value. `null` deletes it. */
  set<Input, Output>(key: JarKey<Input, Output>, value: Exclude<NoInfer<Input>, undefined>): void;
  set<Value extends Json>(name: string, value: Value): void;
  set<Value>(name: string, value: Printed<Value>): void;
  /** Removes the value, even if it cannot be read. */
  delete(key: string | JarKey<unknown>): void;
  /** Whether `get` would return a value. */
  has(key: string | JarKey<unknown>): boolean;
  /** Returns the names for which `has` is true. */
  keys(): string[];
}

/** A {@link JarScope} with known declarations. Names have the types of their schemas, or hold any JSON without one. */
export interface TypedJarScope<Keys extends KeyDeclarations> extends JarScope {
  get<Input, Output>(key: JarKey<Input, Output>): Output | undefined;
  get<Name extends keyof Keys & string>(name: Name): Held<Keys[Name]> | undefined;
  get<Value = Json>(name: string): Value | undefined;
  set<Input, Output>(key: JarKey<Input, Output>, value: Exclude<NoInfer<Input>, undefined>): void;
  set<Name extends string, Value extends Json>(name: Name, value: Settable<Keys, Name, Value>): void;
  set<Name extends string, Value>(name: Name, value: Settable<Keys, Name, Printed<Value>>): void;
}

/** The jar of the client whose request is being handled. */
export interface ServerJar {
  /** State that lives until the client's session ends. */
  readonly session: JarScope;
  /** State that lives across sessions until the server removes it. A client may still forget it. */
  readonly server: JarScope;
  /**
   * Declares a key next to the code that uses it, for both scopes. The returned key replaces the name and adds types.
   *
   * A name that is declared again must have the same settings.
   *
   * @example
   * ```ts
   * const cart = valise.jar.key('Cart Contents', { schema: z.object({ items: z.array(z.string()) }) });
   * valise.jar.session.get(cart)?.items;
   * ```
   */
  key<const Settings extends KeySettings>(
    name: string,
    settings?: Settings,
  ): JarKey<Given<Settings>, Held<Settings>>;
}

/** A {@link ServerJar} with known declarations. */
export interface TypedServerJar<Declared extends JarDeclarations> extends ServerJar {
  readonly session: TypedJarScope<KeysOf<Declared['session']>>;
  readonly server: TypedJarScope<KeysOf<Declared['server']>>;
}

/** A value that JSON can represent, even if its type is an interface, which the compiler does not accept as {@link Json}. */
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

/** The type that the schema of a name accepts, else `Value`. */
type Settable<Keys extends KeyDeclarations, Name, Value> = Name extends keyof WithSchema<Keys>
  ? Exclude<Given<Keys[Name]>, undefined>
  : Value;

/** The names that have a schema. */
type WithSchema<Keys extends KeyDeclarations> = {
  readonly [Name in keyof Keys as Keys[Name] extends { readonly schema: StandardSchema } ? Name : never]: 1;
};

type KeysOf<Declared> = Declared extends KeyDeclarations ? Declared : Record<never, never>;
