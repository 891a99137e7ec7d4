import type { Duration } from '../../duration.ts';
import { isObject } from '../../json.ts';
import {
  ANYTHING,
  checkArgument,
  checkOptions,
  FLAG,
  FUNCTION,
  type Taken,
  type TakenBy,
  TEXT,
} from '../../options.ts';

/** How a client signs in, where the server asks for it. */
export interface AuthOptions {
  /**
   * Shows the sign-in page to the user, usually in a browser. The answer comes to a listener of Valise on this machine;
   * a host that catches it itself (see {@link redirectUrl}) resolves to the address that the user was sent back to.
   */
  readonly redirect: (url: URL) => unknown;
  /** The client's name on the sign-in page; `Valise` by default. */
  readonly clientName?: string | undefined;
  /** What is asked for, separated by blanks, where the server does not say it. */
  readonly scope?: string | undefined;
  /** A registration made beforehand; without it the client registers itself. */
  readonly client?:
    | {
        readonly id: string;
        readonly secret?: string | undefined;
        /** The authorization server that it was made with: it is shown to no other. */
        readonly issuer: string;
      }
    | undefined;
  /** An HTTPS address that describes the client, for authorization servers that take it in place of a registration. */
  readonly clientMetadataUrl?: string | undefined;
  /** The port of the listener on 127.0.0.1: the one that was registered, else a free one, by default. */
  readonly port?: number | undefined;
  /** An address of the host's own to send the user back to; then nothing listens, and {@link redirect} brings the answer. */
  readonly redirectUrl?: string | URL | undefined;
  /** How long the user may take, in seconds or as text such as `'10m'`; five minutes by default. */
  readonly timeout?: Duration | undefined;
  /**
   * Binds tokens to a key of this client (DPoP, RFC 9449), which is kept sealed with them. For authorization servers and
   * MCP servers that take it; needs SDK v2.
   *
   * @defaultValue false
   */
  readonly dpop?: boolean | undefined;
}

/** A registration made beforehand. */
export const OWN_CLIENT: Taken = [
  'an object with id, issuer and, where there is one, secret',
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

/** Throws where something is missing, misspelt, or something else than it takes. */
export function checkAuth(options: AuthOptions): void {
  checkOptions('http, under auth,', options, TAKEN);
  checkArgument('http, as redirect under auth,', options.redirect, FUNCTION);
}
