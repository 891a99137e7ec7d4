import { ANYTHING, BYTES, checkOptions, FLAG, SETTINGS } from '../options.ts';
import { isStore } from '../store/is-store.ts';
import { CARRIERS } from '../wire/index.ts';
import { isClientStateStore } from './connection/state-store.ts';
import { readQuotas } from './jar/quotas.ts';
import type { ClientValiseOptions } from './valise.ts';

const WAYS: readonly unknown[] = CARRIERS;

/** Throws if an option of `openValise` is invalid. `keys` are checked when they are read. */
export function checkClientOptions(options: ClientValiseOptions): void {
  checkOptions('openValise', options, {
    store: [
      'the URL of a store, such as sqlite:./state.db, or a store',
      (value) => typeof value === 'string' || isStore(value) || isClientStateStore(value),
    ],
    keys: ANYTHING,
    // An empty string would mean no particular user, which a caller with a missing name does not intend.
    principal: ['text of at least one character', (value) => typeof value === 'string' && value !== ''],
    quotas: SETTINGS,
    maxMessageBytes: BYTES,
    allowLocal: FLAG,
    digest: FLAG,
    insecurePlaintext: FLAG,
    secrets: [
      "'keychain', 'store' or a store",
      (value) => value === 'keychain' || value === 'store' || isStore(value),
    ],
    carriers: [
      `a list of ${CARRIERS.join(', ')}`,
      (value) => Array.isArray(value) && value.every((one) => WAYS.includes(one)),
    ],
  });
  // Checks the quotas before a store is opened.
  readQuotas(options.quotas);
}
