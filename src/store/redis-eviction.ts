import { RedisConnection } from './redis-connection.ts';

/**
 * The policy by which the Redis at a URL takes entries away when its memory is full; undefined where it takes none,
 * does not say, or the URL is that of another kind of store.
 */
export async function evictionAt(url: string): Promise<string | undefined> {
  if (!/^rediss?:/i.test(url)) return undefined;
  const connection = await RedisConnection.open(url, 10_000);
  try {
    const info = String(await connection.command(true, 'info', 'memory'));
    const policy = /^maxmemory_policy:([\w-]+)/m.exec(info)?.[1];
    // Without a limit it is never full.
    return policy === 'noeviction' || !/^maxmemory:[1-9]/m.test(info) ? undefined : policy;
  } catch {
    return undefined;
  } finally {
    connection.close();
  }
}
