import { relative } from 'node:path';
import { expect, inject } from 'vitest';
import {
  freePort,
  hasValkey,
  type Service,
  type ServiceKind,
  startDocumentedNginx,
  startHaproxy,
  startNginx,
  startPgBouncer,
  startPostgres,
  startPostgresPair,
  startPrometheus,
  startRedis,
  startRedisCluster,
  startRedisSentinel,
} from '../scripts/services.mjs';

export {
  freePort,
  hasValkey,
  type Service,
  startDocumentedNginx,
  startHaproxy,
  startNginx,
  startPgBouncer,
  startPostgres,
  startPostgresPair,
  startPrometheus,
  startRedis,
  startRedisCluster,
  startRedisSentinel,
};

/** True where the run was told to do without Redis and PostgreSQL. */
export const noServices: boolean = process.env.VALISE_NO_SERVICES === '1';

// Every test file that asks for servers says so by importing this one.
if (noServices) {
  const file = relative(process.cwd(), expect.getState().testPath ?? '');
  process.stderr.write(`SKIPPED without servers (VALISE_NO_SERVICES=1): tests in ${file}\n`);
}

/**
 * The URL of the run's shared server, or undefined where the run does without:
 *
 * ```ts
 * const redis = await service('redis');
 * describe.skipIf(!redis)('the Redis store', () => { … });
 * ```
 * Shared means: use names of your own in it (`uniqueName()`), and never restart it.
 * A test that restarts a server starts its own with `startRedis()` or `startPostgres()`.
 */
export async function service(kind: ServiceKind): Promise<string | undefined> {
  if (noServices) return undefined;
  const named = process.env[kind === 'redis' ? 'VALISE_TEST_REDIS' : 'VALISE_TEST_POSTGRES'];
  if (named) return named;
  const response = await fetch(`${inject('services')}/${kind}`);
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return text;
}

/** A name for a namespace or a table that no other test uses. */
export function uniqueName(): string {
  return `t_${crypto.randomUUID().replaceAll('-', '')}`;
}
