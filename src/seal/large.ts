import { ValiseError } from '../errors.ts';
import type { Json } from '../json.ts';
import { sha256 } from '../sha256.ts';
import { KEPT_VALUE, REFERENCE, VALUE } from './claims.ts';
import type { Genuine, Reader } from './read.ts';
import { type Settings, wholeSeconds } from './settings.ts';
import type { OpenOptions, SealOptions } from './types.ts';
import type { Write } from './write.ts';

/** Handles payloads that are too long to send: the sealed value stays in a store, and a short token names it. */
export interface Large {
  seal(value: Json, options: SealOptions): Promise<string>;
  /** Returns the payload of a token, loading it from the store if it is kept there. */
  load(genuine: Genuine, options: OpenOptions): Promise<Json>;
}

export function createLarge({ spill, ttl, skew }: Settings, write: Write, reader: Reader): Large {
  return {
    async seal(value, options) {
      const whole = write(VALUE, value, options);
      if (!spill || whole.length <= spill.above) return whole;
      const kept = write(KEPT_VALUE, value, options);
      const name = nameOf(kept);
      const lifetime = options.ttl === undefined ? ttl : wholeSeconds(options.ttl);
      await spill.store.put(spill.prefix + name, kept, { ttl: Math.ceil(lifetime + 2 * skew) });
      return write(REFERENCE, name, options);
    },

    async load({ claims, opened }, options) {
      if (claims[6] === VALUE) return claims[7];
      const { purpose } = options;
      const { kid } = opened;
      if (!spill) {
        throw new ValiseError(
          'no-store',
          `The token (kid ${kid}) names a value in a store, and there is none here.`,
          {
            next: 'Give createSealer() the spill option that it was sealed with.',
          },
        );
      }
      const name = String(claims[7]);
      const kept = (await spill.store.get(spill.prefix + name))?.value;
      if (kept === undefined) return reader.refuse({ reason: 'expired', purpose });
      if (typeof kept !== 'string' || nameOf(kept) !== name)
        return reader.refuse({ reason: 'tampered', purpose });
      return reader.read(kept, options, KEPT_VALUE).claims[7];
    },
  };
}

/** Names a kept token after its content: anyone who can write to the store can remove it, but cannot replace it with another. */
function nameOf(token: string): string {
  return sha256(token);
}
