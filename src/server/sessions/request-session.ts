import { ValiseError } from '../../core/errors.ts';
import type { Json } from '../../core/json.ts';
import type { Exchange } from '../exchange.ts';
import { Slot } from '../exchange.ts';
import { checkSchema, type StandardSchema, validate } from '../jar/schema.ts';
import type { Committed, OpenSession } from './backend.ts';
import type { NewSession, Session, SessionNamespace } from './session.ts';
import { checkName, type SessionState } from './session-state.ts';

/** A session that a request works in, and how to save or end it. */
export interface ActiveSession {
  readonly session: OpenSession;
  /** Whether it is the default session of a client that does not support sessions. */
  readonly isDefault: boolean;
  /** Saves what the handler changed. */
  commit(): Promise<Committed>;
  end(): Promise<unknown>;
}

/** The session of a request, from its authentication until its commit. */
export interface RequestSession extends ActiveSession {
  readonly handle: SessionHandle;
  /** Whether the handler's changes have been saved. */
  isSaved?: true;
  /** Whether another request has changed what the handler read, so that the handler must run again. */
  isOutdated?: true;
}

/** The session of each request, or the error that only handlers that ask for the session get. */
export const requestSessions = new Slot<RequestSession | { readonly error: unknown }>();

/** Returns the session of a request, if it has one. */
export function sessionOf(exchange: Exchange): RequestSession | undefined {
  const found = requestSessions.get(exchange);
  return found && 'session' in found ? found : undefined;
}

/** The values of one namespace of a session's state. */
class NamespaceValues implements SessionNamespace {
  readonly #state: SessionState;
  readonly #namespace: string;
  /** The request, if there is one. What its handler sets after the answer can no longer be saved. */
  readonly #exchange: Exchange | undefined;

  constructor(state: SessionState, namespace: string, exchange?: Exchange) {
    this.#state = state;
    this.#namespace = namespace;
    this.#exchange = exchange;
  }

  get(key: string, schema?: StandardSchema): never {
    if (schema === undefined) return this.#state.read(this.#namespace, key) as never;
    const value = this.#state.get(this.#namespace, key);
    if (value === undefined) return undefined as never;
    checkSchema(schema, key);
    const result = validate(schema, key, value);
    return (result.issues ? undefined : result.value) as never;
  }

  set(key: string, value: unknown): void {
    this.checkOpen('changed');
    this.#state.set(this.#namespace, key, value as Json);
  }

  delete(key: string): void {
    this.checkOpen('changed');
    this.#state.set(this.#namespace, key, undefined);
  }

  has(key: string): boolean {
    return this.#state.get(this.#namespace, key) !== undefined;
  }

  keys(): string[] {
    return this.#state.keys(this.#namespace);
  }

  namespace(name: string): SessionNamespace {
    checkName('namespace', name);
    return new NamespaceValues(this.#state, name, this.#exchange);
  }

  protected checkOpen(what: string): void {
    if (!this.#exchange?.isAnswered) return;
    throw new ValiseError('outside-request', `A session was ${what} after its request had been answered.`, {
      next: 'Do it before the handler returns.',
    });
  }
}

/** The session as a handler sees it. */
export class SessionHandle extends NamespaceValues implements Session {
  readonly id: string;
  readonly label: string | undefined;
  readonly expiresAt: Date;
  readonly implicit: boolean;
  /** Whether the handler has revoked the session. */
  revoked = false;
  readonly notify: Session['notify'];

  constructor(
    { session: { record, state }, isDefault }: ActiveSession,
    exchange: Exchange,
    notify: Session['notify'],
  ) {
    super(state, '', exchange);
    this.id = record.id;
    this.label = record.label ?? undefined;
    this.expiresAt = new Date(record.expires);
    this.implicit = isDefault;
    this.notify = notify;
  }

  revoke(): void {
    this.checkOpen('ended');
    this.revoked = true;
  }
}

/** A new session as `onCreate` receives it. */
export class PreparedSession extends NamespaceValues implements NewSession {
  readonly id: string;
  readonly label: string | undefined;
  readonly expiresAt: Date;
  readonly implicit: boolean;
  readonly parent: string | undefined;

  constructor(
    { record, state }: OpenSession,
    { isDefault, parent }: { readonly isDefault: boolean; readonly parent?: string | undefined },
  ) {
    super(state, '');
    this.id = record.id;
    this.label = record.label ?? undefined;
    this.expiresAt = new Date(record.expires);
    this.implicit = isDefault;
    this.parent = parent;
  }
}
