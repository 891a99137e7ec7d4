import { ValiseError } from '../../errors.ts';
import { stdinOf } from '../../link/transport.ts';
import { memoryStore } from '../../store/memory/store.ts';
import { isSession, readSession } from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import type { Exchange, ServerMiddleware } from '../exchange.ts';
import { carries } from '../jar/carried.ts';
import { principalKey } from '../principal.ts';
import { type Conversation, conversationReader } from './conversation.ts';
import type { Carrier, CarrierKind } from './types.ts';

/** Decides what carries the state of each request. */
export interface Carriers {
  /** Records the carrier of each request with its exchange. */
  readonly middleware: ServerMiddleware;
  close(): Promise<void>;
}

export interface CarriersOptions {
  /** Whether data-layer sessions are enabled. Another middleware proves them. */
  readonly withSessions: boolean;
  /** Whether the author tells who asks, so that clients that carry no state need a store. */
  readonly namesUsers: boolean;
  readonly conversation: Conversation | undefined;
}

export function createCarriers(context: ServerContext, options: CarriersOptions): Carriers {
  const { store, sealer, warnOnce } = context;
  const conversationOf = options.conversation
    ? conversationReader(options.conversation, context.events)
    : undefined;
  const memory = memoryStore();
  if (!store && !sealer.ephemeral && options.namesUsers) queueMicrotask(() => warnOnce('no-store', NO_STORE));

  /** Whether no other process can get the next call: over stdio, and for users that only keys of this process tell apart. */
  const isAlone = ({ link, principal }: Exchange): boolean =>
    stdinOf(link.transport) !== undefined || (sealer.ephemeral && principal !== undefined);

  const inMemory = (): void =>
    warnOnce('state-in-memory', {
      what: 'There is no store, so the state of clients that carry none is in the memory of this process, and ends with it.',
      next: "Give createValise a store, such as store: 'sqlite:./state.db'.",
    });

  /** Returns the carrier of a request whose client carries nothing. */
  const kept = (exchange: Exchange): Carrier => {
    const principal = principalKey(exchange.principal) ?? null;
    const session = options.withSessions ? claimedSession(exchange) : undefined;
    const conversation = session === undefined ? conversationOf?.(exchange) : undefined;
    const thread = session ?? conversation ?? exchange.transportSession ?? null;
    const kind = kindOf(principal, conversation, thread);
    if (store || kind === 'none') return { kind, principal, thread, store };
    if (isAlone(exchange)) return { kind, principal, thread, store: memory, begin: inMemory };
    if (kind === 'principal') warnOnce('no-store', NO_STORE);
    return { kind, principal, thread, store };
  };

  return {
    middleware(exchange, next) {
      exchange.carrier = carries(exchange)
        ? {
            kind: 'client',
            store,
            // Most calls need neither.
            get principal() {
              return principalKey(exchange.principal) ?? null;
            },
            get thread() {
              const session = options.withSessions ? claimedSession(exchange) : undefined;
              return session ?? exchange.transportSession ?? null;
            },
          }
        : kept(exchange);
      return next();
    },
    close: () => memory.close(),
  };
}

/** The warning for a server whose clients are known and whose state has no place. */
const NO_STORE = {
  what: 'There is no store, so clients that do not carry state cannot keep any, although their users are known: other processes may get their next call.',
  next: "Give createValise a store that all instances share, such as store: 'redis://…'. If there is only one process, give it keys: 'ephemeral', and its memory serves.",
};

/** Returns the best carrier that a request without a client's own state has. */
function kindOf(
  principal: string | null,
  conversation: string | undefined,
  thread: string | null,
): CarrierKind {
  if (principal !== null) return 'principal';
  if (conversation !== undefined) return 'conversation';
  return thread !== null ? 'session' : 'none';
}

/** Returns the session that the request claims. The claim is verified before any handler runs. */
function claimedSession({ request }: Exchange): string | undefined {
  const session = readSession(request.params?._meta);
  return isSession(session) ? `session:${session.sessionId}` : undefined;
}

/** Returns the error that `set` throws if the value cannot be stored anywhere. */
export function noCarrier({ era }: Exchange, hasStore: boolean): ValiseError {
  if (!hasStore)
    return new ValiseError(
      'no-carrier',
      'This client does not carry state, and this server has no store to keep it in.',
      {
        next: 'Give createValise a store, such as store: "sqlite:./state.db", or use a client that announces the capability "state".',
      },
    );
  // The newer era has no transport sessions.
  const advice = era === 'legacy' ? 'Serve with transport sessions (a sessionIdGenerator), verify' : 'Verify';
  return new ValiseError(
    'no-carrier',
    'This client does not carry state, and its requests have neither a transport session nor a verified principal under which the server could store it.',
    {
      next: `${advice} who asks (authInfo, or the option principal of createValise); or put keepsState into the _meta of the tool, so that the model passes a handle; or use a client that announces the capability "state".`,
    },
  );
}
