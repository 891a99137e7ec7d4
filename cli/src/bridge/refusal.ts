import { ValiseError } from 'mcp-valise/client';
import { isObject, statusOf, UNSUPPORTED_VERSION, VERSION_GONE } from 'mcp-valise/internal';
import { isModernVersion } from 'mcp-valise/wire';
import type { Answered } from './server-requests.ts';

/** Codes that only newer-era servers use. They reject the request, but show that the server speaks the era. */
const HEADER_MISMATCH = -32020;
const MISSING_CAPABILITY = -32021;

/** Statuses that say nothing about the era, only about credentials, rate and timing. */
const NO_EVIDENCE = new Set([401, 403, 407, 408, 429]);

/**
 * Whether a server answered `server/discover` as if it did not know the method: with an error, or with an HTTP 4xx status.
 * An unreachable server proves nothing.
 */
export function isRefusal({ response, failure }: Answered): boolean {
  if (!('error' in response)) return false;
  if (failure !== undefined) {
    const status = statusOf(failure);
    return status !== undefined && status >= 400 && status < 500 && !NO_EVIDENCE.has(status);
  }
  const { code, data } = response.error;
  if (code === HEADER_MISMATCH || code === MISSING_CAPABILITY) return false;
  return code !== UNSUPPORTED_VERSION || !supportsModern(data);
}

/** Whether the data of an unsupported-version error lists a version of the newer era. */
export function supportsModern(data: unknown): boolean {
  const supported = isObject(data) && Array.isArray(data['supported']) ? data['supported'] : [];
  return supported.some(isModernVersion);
}

/** Whether a call was not delivered because the server now speaks another era. */
export function isGone(failure: unknown): boolean {
  return failure instanceof ValiseError && failure.code === VERSION_GONE;
}
