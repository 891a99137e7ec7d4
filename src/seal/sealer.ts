import type { Json } from '../json.ts';
import { createCipher } from './cipher.ts';
import { REFERENCE, VALUE } from './claims.ts';
import { keysOf } from './keyring.ts';
import { createLarge } from './large.ts';
import { createMarkUsed } from './once.ts';
import { createReader } from './read.ts';
import { readSettings } from './settings.ts';
import type { OpenLargeOptions, OpenOptions, Sealer, SealerOptions } from './types.ts';
import { createWriter } from './write.ts';

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
