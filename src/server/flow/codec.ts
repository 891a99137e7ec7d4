import { seconds } from '../../duration.ts';
import { isObject, type Json } from '../../json.ts';
import { canonicalJson } from '../../seal/canonical.ts';
import { type OpenOptions, SealError, type Sealer, type SealOptions } from '../../seal/index.ts';
import { sha256 } from '../../seal/sha256.ts';

/**
 * How the context of a round becomes the text that travels through the client, and comes out of it again. The default
 * is sealed; bring your own to use another encoding.
 */
export interface RoundCodec {
  /** Writes `value` into a text that {@link open} accepts under the same purpose, subject and binding, until `ttl` is over. */
  seal(value: Json, options: SealOptions): string;
  /** Reads it again. Throws where anything about it is not as it was: the text comes from the client. */
  open(text: string, options: OpenOptions): Json;
  /** True for a text that {@link seal} may have made; others are left to whoever made them. */
  recognises(text: string): boolean;
}

/** AES-256-GCM under the server's keys: clients can neither read nor change it. */
export function sealedCodec(sealer: Sealer): RoundCodec {
  return {
    seal: (value, options) => sealer.seal(value, options),
    open: (text, options) => sealer.open(text, options),
    // By its start only: one that was altered further on is ours to refuse.
    recognises: (text) => text.startsWith('v1.') && text[11] === '.',
  };
}

const PLAIN = 'plain.';

/**
 * Readable JSON, for development: everybody can read it **and change it**. A server that uses it says so in a warning.
 *
 * @example
 * ```ts
 * const valise = createValise({ name: 'work-items', rounds: { codec: plainCodec() } });
 * ```
 */
export function plainCodec({
  now = Date.now,
}: {
  readonly now?: () => number;
} = {}): RoundCodec & { readonly plain: true } {
  const claims = ({ purpose, subject, bind }: OpenOptions): Json => [
    purpose,
    subject ?? null,
    bind === undefined ? null : sha256(canonicalJson(bind)),
  ];
  return {
    plain: true,
    seal: (value, options) =>
      PLAIN +
      JSON.stringify({ value, for: claims(options), until: now() + seconds(options.ttl ?? 600) * 1000 }),
    open(text, options) {
      let read: unknown;
      try {
        read = JSON.parse(text.slice(PLAIN.length));
      } catch {
        throw new SealError('malformed');
      }
      if (!text.startsWith(PLAIN) || !isObject(read) || typeof read.until !== 'number')
        throw new SealError('malformed');
      if (JSON.stringify(read.for) !== JSON.stringify(claims(options))) throw new SealError('wrong-binding');
      if (read.until < now()) throw new SealError('expired');
      return read.value as Json;
    },
    recognises: (text) => text.startsWith(PLAIN),
  };
}
