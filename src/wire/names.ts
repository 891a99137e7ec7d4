/** The two ages of the protocol: with `initialize` and sessions (up to 2025-11-25), and with metadata in each request (2026-07-28). */
export type Era = 'legacy' | 'modern';

/** Every name that a family uses on the wire, in one era. */
export interface Names {
  readonly state: { readonly session: string; readonly server: string } | { readonly key: string };
  readonly session: string;
  readonly method: {
    readonly create: string;
    readonly delete: string;
    readonly list: string;
    readonly resume: string;
    readonly fork: string;
    readonly listen: string;
  };
  readonly notification: { readonly listening: string };
  readonly code: { readonly sessionNotFound: number; readonly sessionRequired: number };
  readonly header: { readonly session: string };
}
