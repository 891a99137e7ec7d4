import * as crypto from 'node:crypto';

/** The SHA-256 of a text, as base64url. Node has a function for just that since 20.12, at half the cost. */
export const sha256: (text: string) => string =
  typeof crypto.hash === 'function'
    ? (text) => crypto.hash('sha256', text, 'base64url')
    : (text) => crypto.createHash('sha256').update(text).digest('base64url');
