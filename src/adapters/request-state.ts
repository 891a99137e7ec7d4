import type { Duration } from '../core/duration.ts';
import { ValiseError } from '../core/errors.ts';
import type { Json } from '../core/json.ts';
import { ANYTHING, checkOptions, FLAG, FUNCTION, TEXT } from '../core/options.ts';
import type { OpenOptions, Sealer } from '../seal/index.ts';

/** Options for sealing request state. */
export interface RequestStateCodecOptions<Context> {
  /**
   * The purpose of the state. State for one purpose does not open for another.
   *
   * @defaultValue 'request-state'
   */
  readonly purpose?: string | undefined;
  /** Returns the principal that the state belongs to. Nobody else can send it back. */
  readonly subject?: ((ctx: Context) => string | undefined) | undefined;
  /** Returns further values that must match when the state comes back, such as the method and the name of the tool. */
  readonly bind?: ((ctx: Context) => Json) | undefined;
  /** How long the state can be sent back. Defaults to the lifetime of the sealer, 10 minutes. */
  readonly ttl?: Duration | undefined;
  /**
   * Accept each state only once. Requires a sealer with a ledger. A client that repeats a request because its response
   * was lost is rejected.
   *
   * @defaultValue false
   */
  readonly once?: boolean | undefined;
}

/** `RequestStateCodec` of the MCP SDK, version 2. */
export interface RequestStateCodec<Payload, Context> {
  /** Seals a payload, for `inputRequired({ requestState })`. */
  mint(payload: Payload, ctx?: Context): Promise<string>;
  /** Opens state that a client sent back, for `ServerOptions.requestState.verify`. Throws `SealError` if it does not open. */
  verify(state: string, ctx: Context): Promise<Payload>;
}

/**
 * Seals the `requestState` of a server on SDK version 2. The state is encrypted, bound and expiring, and every instance
 * with the keys can open it. The SDK's own codec only signs the state, so the client can read it. If the sealer has a
 * `spill` store, large state stays there.
 *
 * @throws ValiseError `invalid-argument` if an option is invalid.
 *
 * @example
 * ```ts
 * const codec = requestStateCodec<{ step: number }, ServerContext>(createSealer({ audience: 'work-items' }), {
 *   subject: (ctx) => ctx.http?.authInfo?.clientId,
 * });
 * const server = new McpServer(info, { requestState: { verify: codec.verify } });
 * ```
 */
export function requestStateCodec<Payload = unknown, Context = unknown>(
  sealer: Sealer,
  options: RequestStateCodecOptions<Context> = {},
): RequestStateCodec<Payload, Context> {
  checkOptions('requestStateCodec', options, {
    purpose: TEXT,
    subject: FUNCTION,
    bind: FUNCTION,
    ttl: ANYTHING,
    once: FLAG,
  });
  const { purpose = 'request-state', subject, bind, ttl, once } = options;
  const bound = (ctx: Context): OpenOptions => ({ purpose, subject: subject?.(ctx), bind: bind?.(ctx) });
  return {
    async mint(payload, ctx) {
      if (ctx === undefined && (subject || bind))
        throw new ValiseError(
          'invalid-argument',
          'mint was given no context, and this codec binds state to it.',
          {
            next: 'Give the context of the handler as the second argument.',
          },
        );
      return sealer.sealLarge(payload as Json, { ...bound(ctx as Context), ttl });
    },
    verify: async (state, ctx) => (await sealer.openLarge(state, { ...bound(ctx), once })) as Payload,
  };
}
