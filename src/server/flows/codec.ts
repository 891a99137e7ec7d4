import { seconds } from '../../core/duration.ts';
import { isObject, type Json, type JsonObject } from '../../core/json.ts';
import { sha256 } from '../../core/sha256.ts';
import { canonicalJson } from '../../seal/canonical.ts';
import { type OpenOptions, SealError, type Sealer, type SealOptions } from '../../seal/index.ts';
import { isUnknownKey } from '../own-keys.ts';

/**
 * Encodes the context of a round as the state that travels through the client, and decodes it again.
 *
 * The default codec seals it. Provide your own to use another encoding. The state is text or an object (R-05). In the drafts'
 * `state` an object travels as an object. As a `requestState` and as the id of a question it travels as its JSON text.
 */
export interface FlowCodec {
  /**
   * Encodes `value` as a state that {@link open} accepts under the same purpose, subject and binding until `ttl` has passed.
   */
  seal(value: Json, options: SealOptions): FlowContext;
  /** Decodes a state. Throws if anything about it has changed, since the state comes from the client. */
  open(state: FlowContext, options: OpenOptions): Json;
  /** Whether {@link seal} may have created the state. Other states are left to whoever created them. */
  recognizes(state: FlowContext): boolean;
}

/** The state that travels through the client in place of a round's context. */
export type FlowContext = string | JsonObject;

/** Returns a state as text, for places that accept only text. */
export function stateText(state: FlowContext): string {
  return typeof state === 'string' ? state : JSON.stringify(state);
}

/** A codec as the server uses it. Whatever clients send, it throws only `SealError`s and errors about an unknown key. */
export interface StateCodec {
  seal(value: Json, options: SealOptions): FlowContext;
  open(state: unknown, options: OpenOptions): Json;
  recognizes(state: unknown): boolean;
}

/** Makes an author's codec safe to use on what clients send. */
export function stateCodec(codec: FlowCodec): StateCodec {
  const isOwn = (state: FlowContext): boolean => {
    try {
      return codec.recognizes(state);
    } catch {
      return false;
    }
  };
  const read = (state: unknown): FlowContext | undefined => {
    if (typeof state !== 'string')
      return isObject(state) && isOwn(state as JsonObject) ? (state as JsonObject) : undefined;
    if (isOwn(state)) return state;
    return state.startsWith('{') ? read(parsed(state)) : undefined;
  };
  return {
    seal: (value, options) => codec.seal(value, options),
    recognizes: (state) => read(state) !== undefined,
    open(state, options) {
      const own = read(state);
      if (own === undefined) throw new SealError('malformed');
      try {
        return codec.open(own, options);
      } catch (error) {
        throw error instanceof SealError || isUnknownKey(error) ? error : new SealError('malformed');
      }
    },
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Creates the default codec: AES-256-GCM under the server's keys, so that clients can neither read nor change the state. */
export function sealedCodec(sealer: Sealer): FlowCodec {
  return {
    seal: (value, options) => sealer.seal(value, options),
    open: (state, options) => sealer.open(stateText(state), options),
    // Only the start is checked: a state that was altered further on is ours to refuse.
    recognizes: (state) => typeof state === 'string' && state.startsWith('v1.') && state[11] === '.',
  };
}

const PLAIN = 'plain.';

/**
 * Creates a codec of readable JSON, for development. Everybody can read the state **and change it**.
 *
 * A server that uses it emits a warning.
 *
 * @example
 * ```ts
 * const valise = createValise({ name: 'work-items', rounds: { codec: plainCodec() } });
 * ```
 */
export function plainCodec({
  now = Date.now,
  form = 'text',
}: {
  readonly now?: () => number;
  /** `object` sends the state as a JSON object, for tools that show messages. */
  readonly form?: 'text' | 'object';
} = {}): FlowCodec & { readonly plain: true } {
  const claims = ({ purpose, subject, bind }: OpenOptions): Json => [
    purpose,
    subject ?? null,
    bind === undefined ? null : sha256(canonicalJson(bind)),
  ];
  return {
    plain: true,
    seal(value, options) {
      const until = now() + seconds(options.ttl ?? 600) * 1000;
      const state = { value, for: claims(options), until };
      return form === 'object' ? { plain: state } : PLAIN + JSON.stringify(state);
    },
    open(state, options) {
      const read = typeof state === 'string' ? parsed(state.slice(PLAIN.length)) : state['plain'];
      if (!isObject(read) || typeof read.until !== 'number') throw new SealError('malformed');
      if (JSON.stringify(read.for) !== JSON.stringify(claims(options))) throw new SealError('wrong-binding');
      if (read.until < now()) throw new SealError('expired');
      return read.value as Json;
    },
    recognizes: (state) =>
      typeof state === 'string' ? state.startsWith(PLAIN) : Object.hasOwn(state, 'plain'),
  };
}
