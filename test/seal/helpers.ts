import {
  createSealer,
  generateKey,
  parseKeys,
  SealError,
  type SealerOptions,
  type SealReason,
} from 'mcp-valise/seal';

/** A clock that stands still until it is moved. */
export function clock(start = Date.parse('2026-08-01T12:00:00Z')) {
  let time = start;
  return {
    now: () => time,
    /** Moves on by so many seconds. */
    pass: (seconds: number) => {
      time += seconds * 1000;
    },
  };
}

export function sealerWith(options: SealerOptions = {}) {
  return createSealer({ keys: parseKeys(generateKey()), audience: 'work-items', ...options });
}

/** The code of the refusal; fails where there is none, or where something else is thrown. */
export function refusal(open: () => unknown): SealReason {
  try {
    open();
  } catch (error) {
    if (error instanceof SealError) return error.reason;
    throw error;
  }
  throw new Error('The token opened.');
}

/** The same for what is asynchronous. */
export async function laterRefusal(opening: Promise<unknown>): Promise<SealReason> {
  const outcome = await opening.then(
    () => undefined,
    (error: unknown) => error,
  );
  return refusal(() => {
    if (outcome !== undefined) throw outcome;
  });
}

/** The bytes of a token's body, and a token with other bytes. */
export const bodyOf = (token: string) => Buffer.from(token.slice(12), 'base64url');
export const withBody = (token: string, body: Uint8Array) =>
  token.slice(0, 12) + Buffer.from(body).toString('base64url');
