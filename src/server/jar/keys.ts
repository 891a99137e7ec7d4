import { type Duration, seconds } from '../../core/duration.ts';
import { ValiseError } from '../../core/errors.ts';
import type { Json } from '../../core/json.ts';
import { ANYTHING, checkOptions, FLAG } from '../../core/options.ts';
import { type Attributes, checkAttributes, MAX_AGE, type Scope } from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import { checkSchema, type InputOf, type OutputOf, type StandardSchema } from './schema.ts';

/** Settings of the state under one name. All are optional: by default the value is sealed, and any JSON. */
export interface KeySettings {
  /** The schema of the value. A value that comes back and does not fit counts as absent, and is reported. */
  readonly schema?: StandardSchema;
  /** Whether to send plain JSON, which the client can read and change. By default the value is sealed. */
  readonly plain?: boolean;
  /** How long the client stores the value. The maximum, and the default, is 400 days. */
  readonly maxAge?: Duration;
  /** The methods that the value is sent with: a prefix that ends at a slash, such as `tools` or `tools/call/view_cart`. */
  readonly methodScope?: string;
  /**
   * The domain that the value is valid for, like a cookie's Domain. It applies over HTTP only and is never sent elsewhere.
   *
   * A `warning` reports a domain that no client accepts.
   */
  readonly serverScope?: string;
}

/** Settings by name. */
export type KeyDeclarations = { readonly [name: string]: KeySettings };

/** The declared keys of a server's state, for each scope. */
export interface JarDeclarations {
  readonly session?: KeyDeclarations;
  readonly server?: KeyDeclarations;
}

/** The type that `get` returns for a key with these settings. */
export type Held<Settings extends KeySettings> = Settings extends {
  readonly schema: infer Schema extends StandardSchema;
}
  ? OutputOf<Schema>
  : Json;

/** The type that `set` takes for a key with these settings. */
export type Given<Settings extends KeySettings> = Settings extends {
  readonly schema: infer Schema extends StandardSchema;
}
  ? InputOf<Schema>
  : Json;

declare const types: unique symbol;

/** A name with its settings, made by `valise.jar.key()` and accepted by `get`, `set`, `has` and `delete`. */
export interface JarKey<Input = Json, Output = Input> {
  readonly name: string;
  readonly [types]?: { readonly input: Input; readonly output: Output };
}

/** The settings of a key, checked and with defaults applied. */
export interface Key {
  readonly schema: StandardSchema | undefined;
  readonly plain: boolean;
  readonly attributes: Attributes;
  /** The lifetime of a seal, in seconds. It is never shorter than the client stores the value. */
  readonly ttl: number;
}

const UNDECLARED: Key = { schema: undefined, plain: false, attributes: {}, ttl: MAX_AGE };

/** All keys that a server has declared. A name that is not declared is sealed and may hold any JSON. */
export class Keys {
  readonly #declared: Readonly<Record<Scope, Map<string, Key>>> = { session: new Map(), server: new Map() };
  readonly #anywhere = new Map<string, Key>();

  constructor({ session = {}, server = {} }: JarDeclarations = {}) {
    for (const [name, settings] of Object.entries(session))
      this.#declared.session.set(name, read(name, settings));
    for (const [name, settings] of Object.entries(server))
      this.#declared.server.set(name, read(name, settings));
  }

  /**
   * Declares a name for both scopes.
   *
   * A name may be declared again with the same settings, since servers are often built once per request. The new declaration
   * replaces the previous one. Schemas cannot be compared, so the last one counts.
   */
  declare(name: string, settings: KeySettings): void {
    const key = read(name, settings);
    const { session, server } = this.#declared;
    for (const other of [session.get(name), server.get(name), this.#anywhere.get(name)])
      if (other && !isSame(key, other)) throw declaredOtherwise(name);
    this.#anywhere.set(name, key);
  }

  of(scope: Scope, name: string): Key {
    return this.#declared[scope].get(name) ?? this.#anywhere.get(name) ?? UNDECLARED;
  }
}

function isSame(one: Key, other: Key): boolean {
  const { maxAge, methodScope, serverScope } = one.attributes;
  return (
    one.plain === other.plain &&
    (one.schema === undefined) === (other.schema === undefined) &&
    maxAge === other.attributes.maxAge &&
    methodScope === other.attributes.methodScope &&
    serverScope === other.attributes.serverScope
  );
}

function declaredOtherwise(name: string): ValiseError {
  return new ValiseError(
    'invalid-flow',
    `State ${JSON.stringify(name)} is declared twice, with other settings.`,
    {
      next: 'Declare it once, or each time with the same settings; give another state another name.',
    },
  );
}

function read(name: string, settings: KeySettings): Key {
  if ((settings as { readonly '~standard'?: unknown } | null)?.['~standard'] !== undefined)
    throw new ValiseError(
      'invalid-argument',
      `state ${JSON.stringify(name)} was given a schema in place of its settings.`,
      { next: 'Give { schema: … } with it.' },
    );
  checkOptions(`state ${JSON.stringify(name)}`, settings, {
    schema: ANYTHING,
    plain: FLAG,
    maxAge: ANYTHING,
    methodScope: ANYTHING,
    serverScope: ANYTHING,
  });
  const { schema, plain = false, maxAge, methodScope, serverScope } = settings;
  if (schema !== undefined) checkSchema(schema, name);
  const attributes: Attributes = {
    ...(maxAge !== undefined && { maxAge: seconds(maxAge) }),
    ...(methodScope !== undefined && { methodScope }),
    ...(serverScope !== undefined && { serverScope }),
  };
  // A bad attribute fails where it is declared, and not in some request.
  checkAttributes(name, attributes);
  return { schema, plain, attributes, ttl: attributes.maxAge ?? MAX_AGE };
}

/**
 * Creates a check that warns if no client will store a key, because its `serverScope` is a public suffix.
 *
 * The check runs asynchronously.
 */
export function suffixWarning(
  warnOnce: ServerContext['warnOnce'],
): (name: string, settings: KeySettings) => void {
  const seen = new Set<string>();
  return (name, { serverScope }) => {
    // Servers that are built for each request declare their keys each time.
    if (serverScope === undefined || seen.has(serverScope)) return;
    seen.add(serverScope);
    void isPublicSuffix(serverScope).then((isSuffix) => {
      if (!isSuffix) return;
      warnOnce(`public-suffix ${serverScope}`, {
        what: `No client keeps state ${JSON.stringify(name)}: its serverScope ${serverScope} is a public suffix, below which many owners have names.`,
        next: 'Give the domain of the server, or one above it that is all yours.',
      });
    });
  };
}

async function isPublicSuffix(scope: string): Promise<boolean> {
  try {
    // Loading this module takes as long as loading the whole server side, and few servers need it.
    const { parse } = await import('tldts');
    const bare = scope.replace(/^\./, '').replace(/\.$/, '');
    const { domain, isIcann, isPrivate } = parse(bare, { allowPrivateDomains: true });
    return domain === null && (isIcann === true || isPrivate === true);
  } catch {
    return false;
  }
}
