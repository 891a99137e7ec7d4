import type { Duration } from '../../core/duration.ts';
import { isObject } from '../../core/json.ts';
import {
  ANYTHING,
  checkArgument,
  checkOptions,
  FLAG,
  FUNCTION,
  type Taken,
  type TakenBy,
  TEXT,
} from '../../core/options.ts';

/** How a client signs in, if the server requires it. */
export interface AuthOptions {
  /**
   * Shows the sign-in page to the user, usually in a browser. A Valise listener on this machine receives the response. A
   * host that receives it itself (see {@link redirectUrl}) resolves to the address that the user was sent back to.
   */
  readonly redirect: (url: URL) => unknown;
  /** The client's name on the sign-in page. Defaults to `Valise`. */
  readonly clientName?: string | undefined;
  /** The scopes to request, separated by spaces, if the server does not name them. */
  readonly scope?: string | undefined;
  /** An existing registration. Without it, the client registers itself. */
  readonly client?:
    | {
        readonly id: string;
        readonly secret?: string | undefined;
        /** The authorization server that it was made with. It is never shown to another one. */
        readonly issuer: string;
      }
    | undefined;
  /** An HTTPS URL that describes the client, for authorization servers that accept it instead of a registration. */
  readonly clientMetadataUrl?: string | undefined;
  /** The port of the listener on 127.0.0.1. Defaults to the registered one if it is free, or else to any free one. */
  readonly port?: number | undefined;
  /** The host's own address to send the user back to. Valise then does not listen, and {@link redirect} returns the response. */
  readonly redirectUrl?: string | URL | undefined;
  /** How long the user may take, in seconds or as a string such as `'10m'`. Defaults to five minutes. */
  readonly timeout?: Duration | undefined;
  /**
   * Binds tokens to a key of this client (DPoP, RFC 9449), which is stored sealed with them. Requires SDK v2, and an
   * authorization server and an MCP server that support it.
   *
   * @defaultValue false
   */
  readonly dpop?: boolean | undefined;
}

/** Checks an existing registration. */
export const OWN_CLIENT: Taken = [
  'an object with id, issuer and, if there is one, secret',
  (value) =>
    isObject(value) &&
    [value['id'], value['issuer'], value['secret'] ?? ''].every((one) => typeof one === 'string'),
];

const TAKEN: TakenBy<AuthOptions> = {
  redirect: FUNCTION,
  clientName: TEXT,
  scope: TEXT,
  client: OWN_CLIENT,
  clientMetadataUrl: TEXT,
  port: ['a port number', (value) => Number.isInteger(value)],
  redirectUrl: ['a URL', (value) => value instanceof URL || typeof value === 'string'],
  timeout: ANYTHING,
  dpop: FLAG,
};

/** Throws if an option is missing, misspelled or invalid. */
export function checkAuth(options: AuthOptions): void {
  checkOptions('auth', options, TAKEN);
  checkArgument('auth, as redirect,', options.redirect, FUNCTION);
}
