import { stdinOf, type TransportLike } from '../../link/transport.ts';
import type { ServerContext } from '../context.ts';
import type { Exchange, ServerMiddleware } from '../exchange.ts';
import type { Rounds } from '../flows/rounds.ts';
import type { ServerLike } from '../server-like.ts';
import { answerTool } from './answer-tool.ts';
import { type CarriersOptions, createCarriers } from './carrier.ts';
import type { HandleLimits } from './handle-records.ts';
import { type Handles, handlesMiddleware } from './handles.ts';
import { declaredTools, stateKeeping, storeless } from './keeps-state.ts';

export interface CarrierStackOptions extends CarriersOptions {
  readonly handles: Handles | undefined;
  readonly limits: HandleLimits;
  readonly rounds: Rounds;
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
  const { handles = 'declared', limits, rounds, needsSession } = options;
  const { fallback, questions } = rounds.around;
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
      ...handled(), // lets the model pass a handle, where nothing else carries the state
      ...(fallback === 'tool' ? [answerTool(context, questions, () => rounds.asks)] : []), // takes answers that the model passes on
    ],
    connecting: store || handles === false ? undefined : connecting,
    close: carriers.close,
  };
}
