import { NO_RESPONSE } from '../../core/compose.ts';
import { ValiseError } from '../../core/errors.ts';
import { checkArgument, FUNCTION, TEXT } from '../../core/options.ts';
import { sha256 } from '../../core/sha256.ts';
import { canonicalJson } from '../../seal/canonical.ts';
import {
  IDEMPOTENT,
  type IdempotencyReading,
  type IdempotencyRefusal,
  idempotencyError,
  isProblem,
  outcomeIn,
  type Response,
  type Result,
  readIdempotency,
} from '../../wire/index.ts';
import type { ServerContext } from '../context.ts';
import { currentExchange, type Exchange, type ServerMiddleware } from '../exchange.ts';
import { outcomeOf } from '../fault.ts';
import { callOf } from '../flows/continuation.ts';
import { principalKey } from '../principal.ts';
import { type CallName, type Ending, Ledger } from './ledger.ts';
import {
  type Declared,
  declaredIn,
  type IdempotencyOptions,
  type IdempotentOptions,
  readDeclared,
  readIdempotencyOptions,
} from './options.ts';

/** The part of a server's API that is about calls that may be repeated. */
export interface IdempotencyApi {
  /**
   * Declares that the calls of a tool may be repeated: a repeated call does nothing again, and gets the result of the first.
   *
   * Two calls are the same if they have the same principal and the same key. A client of Valise sends a key with each call,
   * and repeats a call whose answer was lost. Needs a store.
   *
   * @param name - The tool that the handler is registered for.
   * @returns The handler, to be registered.
   *
   * @example
   * ```ts
   * server.registerTool('charge', config, valise.idempotent('charge', async ({ cents }) => charge(cents)));
   * ```
   */
  idempotent<Handler extends (...args: never[]) => unknown>(
    name: string,
    handler: Handler,
    options?: IdempotentOptions,
  ): Handler;
}

/** The middleware and the functions of calls that may be repeated. */
export interface Idempotency {
  readonly api: IdempotencyApi;
  /** Gives a repeated call the result of the first. */
  readonly middleware: ServerMiddleware;
  /** Whether the server has a tool whose calls may be repeated. */
  isAnnounced(introduction: Exchange): boolean;
}

/** The shortest key of an anonymous caller: 128 random bits in base64url. A shorter one could be somebody else's. */
const MIN_ANONYMOUS_KEY = 22;

/** Creates the ledger of a server's calls. */
export function createIdempotency(
  context: ServerContext,
  options: IdempotencyOptions | undefined,
): Idempotency {
  const settings = readIdempotencyOptions(options);
  const ledger = context.store && new Ledger(context, settings);
  const byName = new Map<string, Declared>();
  /** The author's handlers that run, which outlive a client that hangs up. */
  const handlers = new WeakMap<Exchange, Promise<unknown>>();

  const declaredFor = (exchange: Exchange): Declared | undefined =>
    byName.get(String(exchange.request.params?.['name'])) ?? declaredIn(exchange.configOf(exchange.request));

  const refuse = (exchange: Exchange, reason: IdempotencyRefusal): Response => {
    context.events.emit('rejected', { family: 'idempotency', what: 'the key of a call', reason });
    return exchange.respond({ error: idempotencyError(reason) });
  };

  /** Returns what identifies the call, undefined if nothing does, or why its key is not accepted. */
  const nameOf = (
    exchange: Exchange,
    reading: IdempotencyReading | undefined,
    { window }: Declared,
  ): CallName | IdempotencyRefusal | undefined => {
    const principal = principalKey(exchange.principal);
    const byArguments = !reading && window !== undefined && principal !== undefined;
    if (!reading && !byArguments) return undefined;
    if (reading && principal === undefined && reading.key.length < MIN_ANONYMOUS_KEY) return 'invalid-key';
    let digest: string;
    try {
      digest = sha256(canonicalJson(callOf(exchange.request)));
    } catch {
      return 'invalid-key';
    }
    const identity = reading ? ['key', reading.key] : ['arguments', digest];
    const id = sha256(JSON.stringify([context.name, principal ?? null, ...identity]));
    const keep = reading ? settings.keep : (window ?? settings.keep);
    return { name: `idempotency/call/${id}`, digest, caller: exchange.caller, keep };
  };

  /** Returns how a call has ended whose client no longer waits. Only a handler that was passed to us tells. */
  const endingWithout = async (exchange: Exchange): Promise<Ending> => {
    if (exchange.runs === 0) return 'released';
    const handler = handlers.get(exchange);
    if (!handler) return 'unknown';
    try {
      const result = (await handler) as Result;
      return exchange.round ? 'released' : { done: { result } };
    } catch {
      // The handler may have stopped because the client hung up, before or after its effect.
      return exchange.round ? 'released' : 'unknown';
    }
  };

  /** Passes a call on. Returns its response or error, and how it has ended. */
  const handled = async (exchange: Exchange, next: () => Promise<Response>): Promise<[Settled, Ending]> => {
    try {
      const response = await next();
      return [{ response }, endingOf(exchange, response)];
    } catch (error) {
      if (error !== NO_RESPONSE) {
        const isNotDone = exchange.runs === 0 || outcomeOf(error) === 'not-done';
        return [{ error }, isNotDone ? 'released' : 'unknown'];
      }
      // Without a hang-up, the SDK has refused the call before a handler ran, or a question was sent another way.
      return [{ error }, exchange.signal.aborted ? await endingWithout(exchange) : 'released'];
    }
  };

  const middleware: ServerMiddleware = async (exchange, next) => {
    if (!ledger || exchange.method !== 'tools/call') return next();
    const reading = readIdempotency(exchange.request.params?._meta);
    if (!reading && !exchange.principal) return next();
    const declared = declaredFor(exchange);
    const isBad = isProblem(reading);
    if (!declared) return !isBad && reading?.isRepeat ? refuse(exchange, 'not-repeatable') : next();
    const call = isBad ? 'invalid-key' : nameOf(exchange, reading, declared);
    if (typeof call === 'string') return refuse(exchange, call);
    if (!call) return next();
    if (continues(exchange)) {
      // The flow's own journal keeps its later rounds from being done twice.
      const response = await next();
      const ending = endingOf(exchange, response);
      if (typeof ending === 'object' && 'done' in ending) await ledger.finish(call, ending.done);
      return response;
    }
    let settled: Settled | undefined;
    const run = async (): Promise<Ending> => {
      const [own, ending] = await handled(exchange, next);
      settled = own;
      return ending;
    };
    const { signal } = exchange;
    const reply = await ledger.once(call, run, signal).catch((error: unknown) => {
      throw signal.aborted ? NO_RESPONSE : error;
    });
    if (reply) return 'refused' in reply ? refuse(exchange, reply.refused) : exchange.respond(reply);
    const { response, error } = settled as unknown as Settled;
    if (response) return response;
    throw error;
  };

  return {
    middleware,
    isAnnounced: (introduction) =>
      ledger !== undefined && (byName.size > 0 || introduction.hasToolWith(IDEMPOTENT)),
    api: {
      idempotent(name, handler, options = {}) {
        checkArgument('valise.idempotent()', name, TEXT);
        checkArgument('valise.idempotent()', handler, FUNCTION);
        if (!ledger) throw noStore(name);
        byName.set(name, readDeclared(options));
        const watched = (...args: never[]): unknown => {
          const result = handler(...args);
          const exchange = currentExchange(context);
          if (exchange) handlers.set(exchange, Promise.resolve(result));
          return result;
        };
        return watched as typeof handler;
      },
    },
  };
}

/** What the rest of the stack has made of a call. */
interface Settled {
  readonly response?: Response;
  readonly error?: unknown;
}

/** Whether the call answers a question, so that it is a later part of a call that has begun. */
function continues({ request: { params }, top, edgeContext }: Exchange): boolean {
  return (
    (params?.['requestState'] ??
      params?.['inputResponses'] ??
      top?.dependent_responses ??
      edgeContext?.answered) !== undefined
  );
}

/** Returns how a call has ended that has a response. */
function endingOf(exchange: Exchange, response: Response): Ending {
  if ('error' in response) {
    const isNotDone = exchange.runs === 0 || outcomeIn(response.error) === 'not-done';
    return isNotDone ? 'released' : { done: { error: response.error } };
  }
  const { result } = response;
  if (result['resultType'] === 'input_required') return { asked: { result } };
  // The drafts' carriers put a question beside the result.
  return exchange.round ? 'released' : { done: { result } };
}

function noStore(name: string): ValiseError {
  return new ValiseError('no-store', `Calls of "${name}" cannot be repeated safely without a store.`, {
    next: "Give createValise a store that outlives the process, such as store: 'sqlite:./state.db'.",
  });
}
