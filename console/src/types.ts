/** What the page knows of its console. */
export interface Meta {
  readonly mode: 'client' | 'tour' | 'server';
  readonly write: boolean;
  readonly version: string;
  readonly store: string;
  readonly principal?: string;
  readonly quota: number;
  readonly seesOthers: boolean;
}

export interface Server {
  readonly id: string;
  readonly name: string;
  readonly jarName: string;
  readonly address?: string;
  readonly kind?: 'http' | 'stdio';
  readonly protocol?: string;
  readonly principal?: string;
  readonly transportSession?: string;
  readonly sessions: number;
  readonly signedIn: boolean;
  readonly tokenExpiresAt?: string;
  readonly renewable: boolean;
  readonly jar: { readonly entries: number; readonly bytes: number; readonly fullest: number };
  readonly questions: number;
  readonly lastSeen?: number;
}

export interface Entry {
  readonly server: string;
  readonly scope: 'session' | 'server';
  readonly key: string;
  readonly size: number;
  readonly setAt: string;
  readonly usedAt: string;
  readonly expiresAt: string;
  readonly setBy?: string;
  readonly session?: string;
  readonly account?: string;
  readonly secure?: true;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly sealed?: { readonly kid: string; readonly bytes: number };
}

export interface KeptSession {
  readonly target: string;
  readonly id: string;
  readonly label?: string;
  readonly expiresAt?: string;
  readonly isStale: boolean;
  readonly usedAt: string;
}

export interface Field {
  readonly name: string;
  readonly title: string;
  readonly description?: string;
  readonly required: boolean;
  readonly type: 'string' | 'number' | 'integer' | 'boolean' | 'array' | 'json';
  readonly choices?: readonly { readonly value: string; readonly label: string }[];
  readonly secret: boolean;
  readonly initial?: unknown;
  readonly format?: string;
}

export interface Question {
  readonly key: string;
  readonly method: string;
  readonly message: string;
  readonly isForm: boolean;
  readonly fields: readonly Field[];
  readonly link?: { readonly url: string; readonly words: string; readonly isSafe: boolean };
}

export interface Round {
  readonly id: string;
  readonly server: string;
  readonly since: string;
  readonly expiresAt?: string;
  readonly session?: string;
  readonly method?: string;
  readonly tool?: string;
  readonly arguments?: unknown;
  readonly questions: readonly Question[];
}

export interface SignIn {
  readonly id: string;
  readonly server: string;
  readonly issuer?: string;
  readonly scope?: string;
  readonly signedIn: boolean;
  readonly tokenExpiresAt?: string;
  readonly renewable?: boolean;
  readonly keptIn?: 'store' | 'secrets' | 'key-file' | 'keychain';
  readonly refreshedBy?: number;
}

export interface Tool {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly fields: readonly Field[];
}

/** The outcome of a call. */
export interface Outcome {
  readonly result?: {
    readonly content?: unknown;
    readonly structuredContent?: unknown;
    readonly isError?: boolean;
  };
  readonly question?: Round;
  readonly next?: Round;
  readonly error?: string;
  readonly problems?: Readonly<Record<string, unknown>>;
}

export interface Made {
  readonly id: number;
  readonly at: number;
  readonly server: string;
  readonly tool: string;
  readonly session?: string;
  readonly arguments: unknown;
  readonly progress?: { readonly done: number; readonly total?: number; readonly message?: string };
  readonly took?: number;
  readonly outcome?: Outcome;
}

interface Fingerprint {
  readonly fingerprint: string;
  readonly bytes: number;
}

export interface Carried {
  readonly what: string;
  readonly value?: unknown;
  readonly sealed?: Fingerprint;
  readonly secret?: Fingerprint;
}

/** One line of the timeline. */
export interface Moment {
  readonly id: number;
  readonly at: number;
  readonly kind: 'message' | 'event' | 'story' | 'claim';
  readonly process?: string;
  readonly from?: string;
  readonly to?: string;
  readonly what?: string;
  readonly says?: string;
  readonly carried?: readonly Carried[];
  readonly name?: string;
  readonly lane?: string;
  readonly title?: string;
  readonly about?: string;
  readonly claim?: string;
  readonly held?: boolean;
}

export interface Finding {
  readonly check: string;
  readonly status: 'ok' | 'warn' | 'fail';
  readonly what: string;
  readonly fix?: string;
}

export interface KeyUse {
  readonly kid: string;
  readonly phase: 'seals' | 'opens' | 'missing' | 'unknown';
  readonly entries: number;
}
