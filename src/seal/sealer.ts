import { ValiseError } from '../core/errors.ts';
import type { Json } from '../core/json.ts';
import { sha256 } from '../core/sha256.ts';
import { createCipher } from './cipher.ts';
import {
  createReader,
  createWriter,
  type Genuine,
  KEPT_VALUE,
  REFERENCE,
  type Reader,
  VALUE,
  type Write,
} from './claims.ts';
import { keysOf } from './keyring.ts';
import {
  type OpenLargeOptions,
  type OpenOptions,
  readSettings,
  type Sealer,
  type SealerOptions,
  type SealOptions,
  type Settings,
  type TokenDescription,
  wholeSeconds,
} from './options.ts';

/**
 * Creates a sealer. It turns state into a token that only holders of the keys can read or create. The token opens only
 * for the same server, purpose, principal and request, before it expires and, if required, only once.
 *
 * @example
 * ```ts
 * const sealer = createSealer({ keys: parseKeys(text), audience: 'work-items', ttl: 600 });
 * const token = sealer.seal({ step: 2 }, { purpose: 'round', subject: user, bind: { method, args } });
 * const state = sealer.open(token, { purpose: 'round', subject: user, bind: { method, args } });
 * ```
 */
export function createSealer(options: SealerOptions = {}): Sealer {
  const settings = readSettings(options);
  const { keys, audience } = settings;
  const ring = keysOf(keys);
  const cipher = createCipher(ring, settings.maxBytes);
  const write = createWriter(settings, cipher);
  const reader = createReader(settings, cipher);
  const large = createLarge(settings, write, reader);
  const markUsed = createMarkUsed(settings, reader);

  if (keys.ephemeral) {
    options.onWarning?.({
      code: 'ephemeral-key',
      message:
        'There are no keys, so one was made up: what it seals opens neither after a restart nor on another instance. Set VALISE_KEYS.',
    });
  }

  return {
    audience,
    kid: ring[0].kid,
    ephemeral: keys.ephemeral,

    seal: (value, options) => write(VALUE, value, options),

    open: <Value extends Json>(token: string, options: OpenOptions) =>
      reader.read(token, options, VALUE).claims[7] as Value,

    async openOnce<Value extends Json>(token: string, options: OpenOptions) {
      const genuine = reader.read(token, options, VALUE);
      await markUsed(reader.describe(genuine), options);
      return genuine.claims[7] as Value;
    },

    sealLarge: large.seal,

    async openLarge<Value extends Json>(token: string, options: OpenLargeOptions) {
      const genuine = reader.read(token, options, VALUE, REFERENCE);
      const description = reader.describe(genuine);
      const value = await large.load(genuine, options);
      // The token is marked as used only after the value is loaded, so that a failing store does not consume it.
      if (options.once) await markUsed(description, options);
      return value as Value;
    },

    describe: (token) => reader.describe(reader.authenticate(token)),
  };
}

/** Handles payloads that are too long to send: the sealed value stays in a store, and a short token names it. */
interface Large {
  seal(value: Json, options: SealOptions): Promise<string>;
  /** Returns the payload of a token, loading it from the store if it is kept there. */
  load(genuine: Genuine, options: OpenOptions): Promise<Json>;
}

function createLarge({ spill, ttl, skew }: Settings, write: Write, reader: Reader): Large {
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

/** Marks a token as used. Rejects if it was used before, or if that cannot be determined. */
type MarkUsed = (token: TokenDescription, options: OpenOptions) => Promise<void>;

function createMarkUsed({ ledger, skew, now }: Settings, reader: Reader): MarkUsed {
  return async (token, options) => {
    if (!ledger) {
      throw new ValiseError(
        'invalid-argument',
        'A token cannot be opened once without a ledger of used ones.',
        {
          next: 'Give createSealer() a ledger: storeLedger(store), or memoryLedger() for one process.',
        },
      );
    }
    // The entry must outlive the token even if the clock of the ledger is ahead of this one.
    const ttl = Math.max(1, Math.ceil(token.expiresAt.getTime() / 1000 + 2 * skew - now() / 1000));
    let first: boolean;
    try {
      first = await ledger.claim(token.id, ttl);
    } catch (cause) {
      throw new ValiseError(
        'not-saved',
        'The ledger of used tokens did not answer, so the token stays closed.',
        {
          next: 'Try again once the ledger works.',
          cause,
        },
      );
    }
    if (first !== true) reader.refuse({ reason: 'replayed', purpose: options.purpose, token });
  };
}
