import { ValiseError } from '../../errors.ts';
import { secrecyOf } from '../../store/secrecy.ts';
import type { Store } from '../../store/types.ts';

/** Where secrets go. */
export interface SecretsOptions {
  /** `'keychain'` or `'store'` chooses one of the two; a store of its own takes them, whatever it is. */
  readonly secrets?: 'keychain' | 'store' | Store | undefined;
  /** Keeps secrets in the store as plain text. A choice, never a fallback. */
  readonly insecurePlaintext?: boolean | undefined;
}

/** Everywhere that secrets can be. */
export interface SecretPlaces {
  readonly stores: readonly Store[];
  /** Why the keychain is not among them, where it should be. */
  readonly problem?: ValiseError;
}

/** The place for secrets, found when the first one is to be kept or read. */
export class Secrets {
  readonly #store: Store;
  readonly #options: SecretsOptions;
  readonly #keychain: Keychain;
  #place: Promise<Store> | undefined;

  constructor(store: Store, options: SecretsOptions, keychain = new Keychain()) {
    this.#store = store;
    this.#options = options;
    this.#keychain = keychain;
  }

  /** The place for secrets of a connection that has a store of its own. */
  within(store: Store | undefined): Promise<Store> {
    return store ? new Secrets(store, this.#options, this.#keychain).place() : this.place();
  }

  /** Keychain, where there is one; else the store, where it is sealed; else an error that says how to choose. */
  place(): Promise<Store> {
    this.#place ??= this.#find().catch((error: unknown) => {
      this.#place = undefined;
      throw error;
    });
    return this.#place;
  }

  /** Where secrets can be that are kept already: the choice may have been another one, and there may have been no keychain. */
  async everywhere(): Promise<SecretPlaces> {
    const { secrets } = this.#options;
    const stores = typeof secrets === 'object' ? [this.#store, secrets] : [this.#store];
    const secrecy = secrecyOf(this.#store);
    const isOutOfUse = secrets ? secrets !== 'keychain' : secrecy && secrecy !== 'sealed';
    if (isOutOfUse) return { stores };
    const keychain = await this.#keychain.open();
    return keychain instanceof ValiseError
      ? { stores, problem: keychain }
      : { stores: [...stores, keychain] };
  }

  async #find(): Promise<Store> {
    const { secrets, insecurePlaintext } = this.#options;
    if (typeof secrets === 'object') return secrets;
    const secrecy = secrecyOf(this.#store);
    if (secrets !== 'keychain') {
      if (insecurePlaintext || (secrecy && secrecy !== 'sealed')) return this.#store;
      if (secrets === 'store' && secrecy) return this.#store;
    }
    let problem = 'it is not to be used';
    if (secrets !== 'store') {
      const keychain = await this.#keychain.open();
      if (!(keychain instanceof ValiseError)) return keychain;
      problem = keychain.message;
    }
    if (secrecy && secrets !== 'keychain') return this.#store;
    throw new ValiseError(
      'no-place-for-secrets',
      `There is no safe place for tokens. The keychain: ${problem} The store: it is not sealed.`,
      {
        next: 'Give keys (VALISE_KEYS, made by: valise keys generate), or use a system with a keychain, or choose plain text with insecurePlaintext (--insecure-plaintext).',
      },
    );
  }

  close(): Promise<void> {
    return this.#keychain.close();
  }
}

/** The system's keychain. To open it is work, and is done once. */
class Keychain {
  #opening: Promise<Store> | undefined;

  /** The keychain, or why it cannot be used. */
  async open(): Promise<Store | ValiseError> {
    this.#opening ??= import('../../store/keychain.ts')
      .then(({ keychainStore }) => keychainStore('mcp-valise'))
      .catch((error: unknown) => {
        this.#opening = undefined;
        throw error;
      });
    try {
      return await this.#opening;
    } catch (error) {
      if (error instanceof ValiseError) return error;
      throw error;
    }
  }

  async close(): Promise<void> {
    const keychain = await this.#opening?.catch(() => undefined);
    await keychain?.close();
  }
}
