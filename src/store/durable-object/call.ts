import type { ValiseErrorCode } from '../../core/error-codes.ts';

/** A call to the object. Times are in milliseconds; versions and holders are chosen by the caller. */
export type Call =
  | { readonly call: 'get'; readonly key: string }
  | {
      readonly call: 'put';
      readonly key: string;
      readonly text: string;
      readonly version: string;
      readonly ttl?: number;
      readonly ifVersion?: string;
      readonly ifAbsent?: boolean;
    }
  | { readonly call: 'delete'; readonly key: string; readonly ifVersion?: string }
  | {
      readonly call: 'list';
      /** The first key, or the key before it if `after`. */
      readonly from: string;
      readonly after: boolean;
      /** The first key that does not belong to the page. */
      readonly to?: string;
      readonly limit: number;
    }
  | { readonly call: 'lease'; readonly key: string; readonly ttl: number; readonly holder: string }
  | {
      readonly call: 'renew';
      readonly key: string;
      readonly fence: number;
      readonly holder: string;
      readonly ttl: number;
    }
  | { readonly call: 'release'; readonly key: string; readonly fence: number; readonly holder: string };

/** An entry as the object returns it. */
export interface Found {
  readonly text: string;
  readonly version: string;
  readonly expires: number | null;
}

/** The reply of the object. */
export interface Reply {
  readonly result?: unknown;
  readonly error?: {
    readonly code: ValiseErrorCode;
    readonly what: string;
    readonly next?: string | undefined;
  };
}
