/** How a client signs in. */
export interface AuthOptions {
  /** Shows the sign-in page to the user, in a browser usually. */
  readonly redirect: (url: URL) => void | Promise<void>;
  /** The client's name on the sign-in page. */
  readonly clientName?: string | undefined;
  /** What is asked for, separated by blanks; what the server names unless told. */
  readonly scope?: string | undefined;
}
