import type { Json } from '../../json.ts';
import type { Attributes, Dict } from '../../wire/index.ts';

/** One piece of state as the jar holds it. Times are milliseconds since 1970. */
export interface Item {
  readonly value: Json;
  /** The JSON text of the value, if it has numbers that `value` does not have exactly. */
  readonly text?: string | undefined;
  /** True if it came over an encrypted connection: it goes over no other. */
  readonly secure?: boolean | undefined;
  readonly size: number;
  /** The server that set it. */
  readonly from: string;
  readonly setAt: number;
  readonly expiresAt: number;
  readonly attributes: Attributes;
  /** Kept only where a `method-scope` decides when it goes along; all others go when the bag goes. */
  readonly usedAt?: number;
  /** `expiresAt` as the store knows it, where it has been renewed since. */
  readonly storedUntil?: number;
}

/** What has changed since the bag was last stored: the new item, or its removal. */
export interface Change {
  readonly item?: Item;
  /** A removal that gives way to an item set after this time: an eviction must not take what another process has just set. */
  readonly unlessSetAfter?: number;
  /** A removal of a key that is unknown here: another process may have set it, so the store decides. */
  readonly isUnseen?: true;
}

/** What of a bag is sent. */
export interface View {
  /** Goes with every request, as it is. */
  readonly plain: Dict;
  /** The names of what goes with some requests. */
  readonly scoped: readonly string[];
  /** The names of what goes with every request, as text. */
  readonly exact: readonly string[];
  /** Whether some of it must not go over an unencrypted connection. */
  readonly hasSecure: boolean;
}
