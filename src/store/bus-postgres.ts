import { createHash } from 'node:crypto';
import { type Duration, seconds } from '../duration.ts';
import { busOver } from './bus-over.ts';
import { Assembly, split } from './bus-parts.ts';
import { PostgresConnection, type PostgresPool } from './postgres-connection.ts';
import { openEar } from './postgres-ear.ts';
import type { Bus } from './types.ts';

/** How a PostgreSQL bus behaves. */
export interface PostgresBusOptions {
  /** Buses hear each other within one database and namespace; `valise` unless told. */
  readonly namespace?: string;
  /** How long a call waits, also for a server that is away, before it fails with `store-unavailable`; 10 s unless told. */
  readonly timeout?: Duration;
}

const NOTIFY = { text: 'SELECT pg_notify($1, part) FROM unnest($2::text[]) AS parts (part)' };

/**
 * Opens a bus on PostgreSQL's LISTEN and NOTIFY, by URL or on a `Pool` of `pg` of your own. Listening takes one
 * connection, made when the first listener comes. Lost connections come back by themselves and go on listening.
 * A pooler between that swaps connections does not work with LISTEN.
 *
 * @example
 * ```ts
 * const bus = await openPostgresBus('postgres://app:secret@db.example/app');
 * await bus.subscribe('sessions', (message) => console.log(message));
 * ```
 */
export async function openPostgresBus(
  source: string | PostgresPool,
  options: PostgresBusOptions = {},
): Promise<Bus> {
  const { namespace = 'valise', timeout = 10 } = options;
  const connection = await PostgresConnection.open(source, seconds(timeout) * 1000, 3);
  try {
    await connection.run({ text: 'SELECT 1' }, [], true);
  } catch (error) {
    await connection.close();
    throw error;
  }
  // A channel is a name of at most 63 bytes, a topic is any text.
  const channelOf = (topic: string) =>
    `valise_${createHash('sha256')
      .update(JSON.stringify([namespace, topic]))
      .digest('hex')
      .slice(0, 40)}`;
  return busOver(channelOf, (hear) => {
    const assembly = new Assembly(hear);
    const ear = openEar(connection, (channel, payload) => assembly.add(channel, payload));
    return {
      async publish(channel, text) {
        // All parts in one statement: they arrive together and in order, or not at all.
        await connection.run(NOTIFY, [channel, split(text)]);
      },
      listen: ear.listen,
      unlisten: ear.unlisten,
      async close() {
        ear.close();
        await connection.close();
      },
    };
  });
}
