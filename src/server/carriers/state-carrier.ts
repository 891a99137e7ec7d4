import { ValiseError } from '../../core/errors.ts';
import type { TransportLike } from '../../core/instrument.ts';
import type { Taken } from '../../core/options.ts';
import { sha256 } from '../../core/sha256.ts';
import { stdinOf } from '../../edge/stdio.ts';
import { memoryStore } from '../../store/memory/store.ts';
import { isSession, type Meta, readSession } from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import type { ServerEventSource } from '../events.ts';
import type { Exchange, ServerMiddleware } from '../exchange.ts';
import type { Flows } from '../flows/flows.ts';
import { carries } from '../jar/carried.ts';
import { principalKey } from '../principal.ts';
import type { ServerLike } from '../sdk-server.ts';
import { answerTool } from './fallback.ts';
import {
  declaredTools,
  type HandleLimits,
  type Handles,
  handlesMiddleware,
  stateKeeping,
  storeless,
} from './handles.ts';
import type { Carrier, CarrierKind } from './types.ts';

export interface CarrierStackOptions extends CarriersOptions {
  readonly handles: Handles | undefined;
  readonly limits: HandleLimits;
  readonly flows: Flows;
  /** Whether a call of the tool needs a session. */
  needsSession(exchange: Exchange, tool: string): boolean;
}

/** The carriers of a server's clients. */
export interface CarrierStack {
  /** The middlewares, outermost first. They are outside of everything that depends on the carrier. */
  readonly middlewares: readonly ServerMiddleware[];
  /** Tells the author once, when the first server connects, what anonymous clients cannot use. */
  readonly connecting: ((server: ServerLike, transport: TransportLike) => void) | undefined;
  close(): Promise<void>;
}

export function carrierStack(context: ServerContext, options: CarrierStackOptions): CarrierStack {
  const { store, warnOnce } = context;
  const { handles = 'declared', limits, flows, needsSession } = options;
  const { fallback, questions } = flows.fallback;
  const carriers = createCarriers(context, options);
  let isFirst = true;
  if (!store && handles === 'all') queueMicrotask(() => warnOnce('handles-without-store', storeless([])));
  const handled = (): ServerMiddleware[] => {
    if (!store || handles === false) return [];
    const keepsState = stateKeeping(handles, { needsSession, flowsContinue: fallback !== 'error' });
    return [handlesMiddleware({ ...context, store }, { limits, keepsState })];
  };
  const connecting = (server: ServerLike, transport: TransportLike): void => {
    if (!isFirst || stdinOf(transport) !== undefined) return;
    isFirst = false;
    const tools = declaredTools(server);
    if (tools.length > 0) warnOnce('handles-without-store', storeless(tools));
  };
  return {
    middlewares: [
      carriers.middleware, // decides what carries the state of the request to the next call
      ...handled(), // lets the model pass a handle, if nothing else carries the state
      ...(fallback === 'tool' ? [answerTool(context, questions, () => flows.asks)] : []), // takes answers that the model passes on
    ],
    connecting: store || handles === false ? undefined : connecting,
    close: carriers.close,
  };
}

/** Decides what carries the state of each request. */
interface Carriers {
  /** Records the carrier of each request with its exchange. */
  readonly middleware: ServerMiddleware;
  close(): Promise<void>;
}

interface CarriersOptions {
  /** Whether data-layer sessions are enabled. Another middleware proves them. */
  readonly withSessions: boolean;
  /** Whether the author tells who asks, so that clients that carry no state need a store. */
  readonly namesUsers: boolean;
  readonly conversation: Conversation | undefined;
}

function createCarriers(context: ServerContext, options: CarriersOptions): Carriers {
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
export function noCarrier({ codec }: Exchange, hasStore: boolean): ValiseError {
  if (!hasStore)
    return new ValiseError(
      'no-carrier',
      'This client does not carry state, and this server has no store to keep it in.',
      {
        next: 'Give createValise a store, such as store: "sqlite:./state.db", or use a client that announces the capability "state".',
      },
    );
  const advice = codec.isStateless
    ? 'Verify'
    : 'Serve with transport sessions (a sessionIdGenerator), verify';
  return new ValiseError(
    'no-carrier',
    'This client does not carry state, and its requests have neither a transport session nor a verified principal under which the server could store it.',
    {
      next: `${advice} who asks (authInfo, or the option principal of createValise); or put keepsState into the _meta of the tool, so that the model passes a handle; or use a client that announces the capability "state".`,
    },
  );
}

/**
 * How a request names its conversation.
 *
 * `true` reads the keys that hosts are known to send in `_meta`. A function returns the key, or undefined if there is none; its
 * second argument is what the transport passes along with the message.
 */
export type Conversation = boolean | ((meta: Meta, extra: unknown) => string | undefined);

/** The values that the option accepts. */
export const CONVERSATION: Taken = [
  'true, or a function that returns the key of a conversation',
  (value) => typeof value === 'boolean' || typeof value === 'function',
];

/** The `_meta` keys in which hosts name the conversation. */
const PUBLISHED = [
  'openai/session', // ChatGPT
  'vscode.conversationId', // Visual Studio Code
  'threadId', // Codex
  'ai.opencode/sessionID', // OpenCode
  'antigravity.google/conversation_id', // Antigravity
] as const;

/** The longest key that is accepted. */
const MAX_KEY = 1024;

/** Creates the function that reads the conversation of a request. It returns a digest, since the key may be a secret. */
function conversationReader(
  conversation: Conversation,
  events: ServerEventSource,
): (exchange: Exchange) => string | undefined {
  const keyOf = typeof conversation === 'function' ? conversation : published;
  return ({ request, extra }) => {
    const meta = request.params?._meta;
    const key: unknown = keyOf(meta ?? {}, extra);
    if (key === undefined || key === null || key === '') return undefined;
    if (typeof key === 'string' && key.length <= MAX_KEY) return `conversation:${sha256(key)}`;
    const reason = typeof key === 'string' ? `it is longer than ${MAX_KEY} characters` : 'it is not text';
    events.emit('rejected', { family: 'jar', what: 'the key of a conversation', reason });
    return undefined;
  };
}

function published(meta: Meta): string | undefined {
  return PUBLISHED.map((name) => meta[name]).find((key) => typeof key === 'string') as string | undefined;
}
