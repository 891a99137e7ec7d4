import { RedisConnection } from 'mcp-valise/internal';

/** A property of a Redis server that can lose entries of Valise. */
export interface RedisRisk {
  readonly what: string;
  readonly fix: string;
}

/** Returns how the settings of the Redis at a URL can lose entries; empty if the URL names another kind of store. */
export async function redisRisks(url: string): Promise<RedisRisk[]> {
  if (!/^(redis|valkey)/i.test(url)) return [];
  const connection = await RedisConnection.open(url, { timeout: 10_000 });
  try {
    const info = String(await connection.command(['info'], true));
    const read = (name: string) => new RegExp(`^${name}:([^\\r\\n]*)`, 'm').exec(info)?.[1] ?? '';
    const risks: RedisRisk[] = [];
    const policy = read('maxmemory_policy');
    // Without a limit, Redis never evicts.
    if (policy !== '' && policy !== 'noeviction' && Number(read('maxmemory')) > 0)
      risks.push({
        what: `takes entries away when its memory is full (maxmemory-policy ${policy})`,
        fix: 'Set maxmemory-policy noeviction: a full Redis then refuses writes, and loses nothing.',
      });
    const saves = await setting(connection, 'save');
    if (read('aof_enabled') === '0' && saves === '')
      risks.push({
        what: 'writes nothing to disk, so a restart loses everything',
        fix: 'Set appendonly yes.',
      });
    if (Number(read('connected_slaves')) > 0 && (await setting(connection, 'min-replicas-to-write')) === '0')
      risks.push({
        what: 'takes writes that no replica has, so a failover can lose them',
        fix: "Set min-replicas-to-write 1, and open the store with durability: 'replicated'.",
      });
    return risks;
  } catch {
    return [];
  } finally {
    connection.close();
  }
}

/** Returns a setting of the server; undefined if this user may not read settings. */
async function setting(connection: RedisConnection, name: string): Promise<string | undefined> {
  try {
    const [, value] = (await connection.command(['config', 'get', name], true)) as [string, string];
    return value;
  } catch {
    return undefined;
  }
}
