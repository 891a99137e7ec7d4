import { parseTarget, tellNoEnv, withEnv } from '../connection/target.ts';
import { type ConnectOptions, givenStoreUrl } from '../options/options.ts';
import type { Finding } from './finding.ts';
import {
  checkKeychain,
  checkKeys,
  checkNode,
  checkPermissions,
  checkSdk,
  checkStore,
} from './local-checks.ts';
import { checkTarget } from './server-checks.ts';

/** Runs all checks: of this machine and the store, and of a server if a target is given. */
export async function examine(target: string | undefined, options: ConnectOptions): Promise<Finding[]> {
  const found = target === undefined ? undefined : withEnv(parseTarget(target), options.env);
  if (found) tellNoEnv(found, options.env);
  // A URL that no store can have is a finding of its own.
  const url = givenStoreUrl(options.store);
  return [
    checkNode(),
    checkSdk(),
    ...checkKeys(options),
    await checkStore(url, options),
    ...checkPermissions(url),
    await checkKeychain(),
    ...(found === undefined ? [] : await checkTarget(found, options)),
  ];
}
