import * as crypto from 'node:crypto';

/** The SHA-256 of a text or of bytes. Node has a function for just that since 20.12, at half the cost. */
export const sha256: (data: string | Uint8Array, encoding?: 'base64url' | 'hex') => string =
  typeof crypto.hash === 'function'
    ? (data, encoding = 'base64url') => crypto.hash('sha256', data, encoding)
    : (data, encoding = 'base64url') => crypto.createHash('sha256').update(data).digest(encoding);
