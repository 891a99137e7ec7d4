import type { Json } from '../../json.ts';
import type { Attributes, Dict } from '../../wire/index.ts';

/** One entry as the jar holds it. Times are in milliseconds since 1970. */
export interface Item {
  readonly value: Json;
  /** The JSON text of the value, if `value` cannot hold its numbers exactly. */
  readonly text?: string | undefined;
  /** True if it arrived over an encrypted connection. It is never sent over an unencrypted one. */
  readonly secure?: boolean | undefined;
  readonly size: number;
  /** The server that set it. */
  readonly from: string;
  readonly setAt: number;
  readonly expiresAt: number;
  readonly attributes: Attributes;
  /** Kept only if a `method-scope` decides when the item is sent. All other items are sent whenever the bag is. */
  readonly usedAt?: number;
  /** The `expiresAt` that the store has, if the item has been renewed since. */
  readonly storedUntil?: number;
}

/** A change since the bag was last stored: a new item, or a removal. */
export interface Change {
  readonly item?: Item;
  /** A removal yields to an item set after this time, so that an eviction does not remove what another process has just set. */
  readonly unlessSetAfter?: number;
  /** Marks the removal of a key that is unknown here. Another process may have set it, so the store decides. */
  readonly isUnseen?: true;
}

/** The part of a bag that is sent. */
export interface View {
  /** The values that are sent unchanged with every request. */
  readonly plain: Dict;
  /** The names of items that are sent with some requests. */
  readonly scoped: readonly string[];
  /** The names of items that are sent with every request, as text. */
  readonly exact: readonly string[];
  /** Whether some items must not be sent over an unencrypted connection. */
  readonly hasSecure: boolean;
}
