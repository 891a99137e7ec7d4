import { type IoredisClient, isIoredis, type RedisClient } from './redis-client.ts';
import { isRefusal } from './redis-trouble.ts';

/** Whether a command would be sent at once; a client of node-redis does not tell. */
export function isReady(client: RedisClient): boolean {
  return !isIoredis(client) || client.status === 'ready';
}

/** What last went wrong with a client's connection. */
export const lastErrors = new WeakMap<IoredisClient, Error>();
const waits = new WeakMap<IoredisClient, Promise<void>>();

/** Resolves once the client is ready; one wait for all who wait for the same client. */
export function untilReady(client: IoredisClient): Promise<void> {
  const known = waits.get(client);
  if (known) return known;
  const wait = new Promise<void>((resolve, reject) => {
    const settle = (act: () => void) => {
      waits.delete(client);
      client.off('ready', ready);
      client.off('end', end);
      client.off('error', failed);
      act();
    };
    const ready = () => {
      lastErrors.delete(client);
      settle(resolve);
    };
    const end = () => settle(() => reject(lastErrors.get(client) ?? new Error('the client has been ended')));
    const failed = (error: Error) => {
      lastErrors.set(client, error);
      if (isRefusal(error)) settle(() => reject(error));
    };
    client.on('ready', ready);
    client.on('end', end);
    client.on('error', failed);
    if (client.status === 'wait') client.connect().catch(() => {});
    if (client.status === 'end') end();
  });
  if (client.status !== 'end') waits.set(client, wait);
  return wait;
}
