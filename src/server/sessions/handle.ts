import { ValiseError } from '../../errors.ts';
import type { Json } from '../../json.ts';
import type { Params } from '../../wire/index.ts';
import { checkSchema, type StandardSchema, validate } from '../jar/schema.ts';
import { checkName, type SessionData } from './data.ts';
import type { Held } from './held.ts';
import type { Session, SessionNamespace } from './session.ts';

/** The data and services of a session's handle, besides its state. */
export interface HandleFacts {
  readonly implicit: boolean;
  /** Whether the request has been answered, so that nothing more can be saved. */
  readonly answered: () => boolean;
  readonly notify: (method: string, params: Params | undefined) => Promise<void>;
}

/** The session as a handler sees it. */
export class Handle implements Session {
  readonly id: string;
  readonly label: string | undefined;
  readonly expiresAt: Date;
  readonly implicit: boolean;
  /** Whether the handler has revoked the session. */
  revoked = false;
  readonly #data: SessionData;
  readonly #facts: HandleFacts;
  readonly #own: SessionNamespace;

  constructor({ id, label, expires, data }: Held, facts: HandleFacts) {
    this.id = id;
    this.label = label;
    this.expiresAt = new Date(expires);
    this.implicit = facts.implicit;
    this.#data = data;
    this.#facts = facts;
    this.#own = valuesOf(data, '', facts.answered);
  }

  get(key: string, schema?: StandardSchema): never {
    return this.#own.get(key, schema as StandardSchema) as never;
  }

  set(key: string, value: unknown): void {
    this.#own.set(key, value as Json);
  }

  delete(key: string): void {
    this.#own.delete(key);
  }

  has(key: string): boolean {
    return this.#own.has(key);
  }

  keys(): string[] {
    return this.#own.keys();
  }

  namespace(name: string): SessionNamespace {
    checkName('namespace', name);
    return valuesOf(this.#data, name, this.#facts.answered);
  }

  revoke(): void {
    checkOpen(this.#facts.answered, 'ended');
    this.revoked = true;
  }

  notify(method: string, params?: Params): Promise<void> {
    return this.#facts.notify(method, params);
  }
}

/** Returns the values of one namespace. */
export function valuesOf(data: SessionData, namespace: string, answered: () => boolean): SessionNamespace {
  return {
    get: (key: string, schema?: StandardSchema) =>
      (schema === undefined
        ? data.read(namespace, key)
        : read(key, data.get(namespace, key), schema)) as never,
    set(key: string, value: unknown) {
      checkOpen(answered, 'changed');
      data.set(namespace, key, value as Json);
    },
    delete(key) {
      checkOpen(answered, 'changed');
      data.set(namespace, key, undefined);
    },
    has: (key) => data.get(namespace, key) !== undefined,
    keys: () => data.keys(namespace),
  };
}

function read(key: string, value: Json | undefined, schema: StandardSchema): unknown {
  if (value === undefined) return undefined;
  checkSchema(schema, key);
  const result = validate(schema, key, value);
  return result.issues ? undefined : result.value;
}

function checkOpen(answered: () => boolean, what: string): void {
  if (!answered()) return;
  throw new ValiseError('outside-request', `A session was ${what} after its request had been answered.`, {
    next: 'Do it before the handler returns.',
  });
}
