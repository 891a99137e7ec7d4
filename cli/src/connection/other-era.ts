import {
  causesOf,
  isModernVersion,
  isObject,
  METHOD_NOT_FOUND,
  messageOf,
  UNSUPPORTED_VERSION,
} from 'mcp-valise/internal';
import { supportsModern } from '../bridge/shapes.ts';
import { CommandError } from '../errors.ts';
import type { ConnectOptions } from '../options/options.ts';
import { bodyOf, connectionProblem } from '../output/problems.ts';
import { USE_V2 } from './sdk.ts';

/** Returns a better error if a server turns out to support only another era; undefined for other errors. */
export function otherEra(
  error: unknown,
  options: Pick<ConnectOptions, 'sdk' | 'era'>,
): CommandError | undefined {
  return newerOnly(error, options) ?? olderOnly(error, options);
}

function olderOnly(error: unknown, { era }: Pick<ConnectOptions, 'era'>): CommandError | undefined {
  if (era !== 'modern' || !refusesNewer(error)) return undefined;
  return new CommandError('older-only', OLDER_ONLY, { next: 'Leave out --era modern.' });
}

/** Reported for a server that supports only the older era. */
export const OLDER_ONLY =
  'The server does not speak 2026-07-28, but may speak the protocol up to 2025-11-25.';

/** Whether a client that speaks only 2026-07-28 was refused for its era. Any other reason would be the error's cause. */
export function refusesNewer(error: unknown): boolean {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return (
    code === 'ERA_NEGOTIATION_FAILED' &&
    causesOf(error).length === 1 &&
    connectionProblem(error) === undefined
  );
}

/** Returns a better error if a server turns out to support only 2026-07-28; undefined for other errors. */
export function newerOnly(
  error: unknown,
  { sdk, era }: Pick<ConnectOptions, 'sdk' | 'era'>,
): CommandError | undefined {
  const isOlder = sdk === 'v1' || era === 'legacy';
  if (!isOlder || !causesOf(error).some(refusesOlder)) return undefined;
  const why = sdk === 'v1' ? 'the v1 SDK speaks' : 'with --era legacy it is spoken to in';
  return new CommandError(
    'newer-only',
    `The server speaks only 2026-07-28, and ${why} the protocol up to 2025-11-25.`,
    { next: sdk === 'v1' ? USE_V2 : 'Leave out --era legacy.' },
  );
}

/** Whether a server does not support `initialize`, or none of the versions that it could negotiate. */
function refusesOlder(error: unknown): boolean {
  if (isRefusal(error) || isRefusal(errorIn(bodyOf(error)))) return true;
  // The v1 error for a response with a version that it does not support.
  const answered = /protocol version is not supported: (\S+)/.exec(messageOf(error))?.[1];
  return answered !== undefined && isModernVersion(answered);
}

function isRefusal(error: unknown): boolean {
  if (!isObject(error)) return false;
  const { code, data } = error;
  if (code === METHOD_NOT_FOUND) return true;
  return code === UNSUPPORTED_VERSION && supportsModern(data);
}

/** Returns the error in a JSON-RPC body. */
function errorIn(body: string): unknown {
  try {
    return (JSON.parse(body) as { readonly error?: unknown } | null)?.error;
  } catch {
    return undefined;
  }
}
