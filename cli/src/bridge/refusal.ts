import { ValiseError } from 'mcp-valise/client';
import { isObject, statusOf, UNSUPPORTED_VERSION, VERSION_GONE } from 'mcp-valise/internal';
import { isModernVersion } from 'mcp-valise/wire';
import type { Answered } from './server-requests.ts';

/** Codes that only a server of the newer era uses: it did not like the request, but it knows the era. */
const HEADER_MISMATCH = -32020;
const MISSING_CAPABILITY = -32021;

/** Statuses that say nothing about the era: who asks, how often, and how fast. */
const NO_EVIDENCE = new Set([401, 403, 407, 408, 429]);

/**
 * True where a server has answered `server/discover` as one does that has never heard of it: with an error, or with a
 * status of HTTP that blames the request. A server that cannot be reached has not said anything.
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

/** True where the data of an unsupported version names one of the newer era that the server speaks. */
export function supportsModern(data: unknown): boolean {
  const supported = isObject(data) && Array.isArray(data['supported']) ? data['supported'] : [];
  return supported.some(isModernVersion);
}

/** True where a call was not delivered since the server speaks another era by now. */
export function isGone(failure: unknown): boolean {
  return failure instanceof ValiseError && failure.code === VERSION_GONE;
}
