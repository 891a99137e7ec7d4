import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type Duration, seconds } from '../../core/duration.ts';
import { ValiseError } from '../../core/errors.ts';
import { sha256 } from '../../core/sha256.ts';
import { busOver } from '../bus.ts';
import { withTimeout } from '../kit/clock.ts';
import type { Bus } from '../types.ts';
import { type PostgresClient, PostgresConnection, type PostgresPool } from './connection.ts';

/** Options of {@link postgresBus}. */
export interface PostgresBusOptions {
  /** Buses share messages within one database and namespace. @defaultValue `'valise'` */
  readonly namespace?: string;
  /** How long a call waits, including for an unreachable server, before it fails with `store-unavailable`. @defaultValue 10 s */
  readonly timeout?: Duration;
  /** Options for the pool of `pg`, if Valise creates it. */
  readonly pool?: Readonly<Record<string, unknown>>;
}

const NOTIFY = { text: 'SELECT pg_notify($1, part) FROM unnest($2::text[]) AS parts (part)' };

/**
 * Opens a bus on PostgreSQL's LISTEN and NOTIFY, by URL or on your own `Pool` of `pg`. Listening takes one connection,
 * opened for the first listener. A lost connection is replaced and listens to the same topics. LISTEN does not work
 * through a pooler that swaps connections: `subscribe` then fails with `store-unavailable`.
 *
 * @example
 * ```ts
 * const bus = await postgresBus('postgres://app:secret@db.example/app');
 * await bus.subscribe('sessions', (message) => console.log(message));
 * ```
 */
export async function postgresBus(
  source: string | PostgresPool,
  options: PostgresBusOptions = {},
): Promise<Bus> {
  const { namespace = 'valise', timeout = 10, pool } = options;
  const connection = await PostgresConnection.open(source, {
    timeout: seconds(timeout) * 1000,
    connections: 3,
    pool,
  });
  try {
    await connection.run({ text: 'SELECT 1' }, [], true);
  } catch (error) {
    await connection.close();
    throw error;
  }
  // A channel is a name of at most 63 bytes, while a topic is any text.
  const channelOf = (topic: string) =>
    `valise_${sha256(JSON.stringify([namespace, topic]), 'hex').slice(0, 40)}`;
  return busOver(channelOf, (hear) => {
    const assembly = new Assembly(hear);
    const listener = openListener(connection, (channel, payload) => assembly.add(channel, payload));
    return {
      async publish(channel, text) {
        // All parts are sent in one statement, so that they arrive together and in order, or not at all.
        await connection.run(NOTIFY, [channel, split(text)]);
      },
      listen: listener.listen,
      unlisten: listener.unlisten,
      async close() {
        listener.close();
        await connection.close();
      },
    };
  });
}

function notListening(): ValiseError {
  return new ValiseError(
    'store-unavailable',
    'This connection to PostgreSQL does not deliver notifications.',
    {
      next: 'Connect the bus to PostgreSQL itself: LISTEN does not work through a pooler in transaction mode.',
    },
  );
}

/** A listening connection that is replaced when it is lost. */
interface Listener {
  listen(channel: string): Promise<void>;
  unlisten(channel: string): Promise<void>;
  close(): void;
}

/** Starts to listen. Channels are plain names. */
function openListener(
  connection: PostgresConnection,
  hear: (channel: string, payload: string) => void,
): Listener {
  const channels = new Set<string>();
  let session: Promise<Session> | undefined;
  let closed = false;

  /** Runs one statement after the other, because a `pg` client must not receive a second one while the first is running. */
  const inTurn = (client: PostgresClient): Session['run'] => {
    let last: Promise<unknown> = Promise.resolve();
    return (text) => {
      const done = last.then(() => connection.ask(client, text));
      last = done.catch(() => undefined);
      return done;
    };
  };

  /** Verifies that notifications arrive: a pooler in between accepts LISTEN and never delivers anything. */
  const hearOneself = async (client: PostgresClient, run: Session['run']): Promise<void> => {
    const channel = `valise_${randomUUID().replaceAll('-', '')}`;
    const heard = new Promise<void>((resolve) => {
      client.on('notification', (message) => message.channel === channel && resolve());
    });
    await run(`LISTEN ${channel}`);
    await connection.run(NOTIFY, [channel, ['']]);
    await withTimeout(heard, connection.timeout, () => {
      throw notListening();
    });
    await run(`UNLISTEN ${channel}`);
  };

  const connect = async (): Promise<Session> => {
    const client = await connection.checkout();
    const run = inTurn(client);
    let live = true;
    const lose = () => {
      if (!live) return;
      live = false;
      session = undefined;
      client.release(true);
      if (!closed) void reconnect();
    };
    client.on('error', lose);
    client.on('end', lose);
    client.on('notification', ({ channel, payload = '' }) => {
      if (live) hear(channel, payload);
    });
    try {
      if (closed) throw new Error('closed');
      if (await connection.isPooled(client)) throw notListening();
      await hearOneself(client, run);
      if (channels.size > 0) await run([...channels].map((name) => `LISTEN ${name}`).join('; '));
    } catch (error) {
      lose();
      throw error;
    }
    return { run, lose };
  };

  const current = (): Promise<Session> => {
    if (session) return session;
    const next = connect();
    next.catch(() => {
      if (session === next) session = undefined;
    });
    session = next;
    return next;
  };

  /** Reconnects until the server is back, however long it takes. */
  const reconnect = async () => {
    while (!closed && channels.size > 0) {
      const back = await current().then(
        () => true,
        () => false,
      );
      if (back) return;
      await pause(200);
    }
  };

  // A silent connection may be dead, so it is probed periodically and dropped if it does not respond.
  const pulse = setInterval(async () => {
    const now = await session?.catch(() => undefined);
    if (now) await now.run('SELECT 1').catch(now.lose);
  }, 3 * connection.timeout);
  pulse.unref();

  return {
    async listen(channel) {
      channels.add(channel);
      const { run, lose } = await current();
      await run(`LISTEN ${channel}`).catch(async () => {
        // The connection was lost meanwhile. The next session listens to all channels from its start.
        lose();
        await current();
      });
    },
    async unlisten(channel) {
      channels.delete(channel);
      const now = await session?.catch(() => undefined);
      // If this fails, the connection is lost, and the next one will not listen to the channel.
      if (now && !channels.has(channel)) await now.run(`UNLISTEN ${channel}`).catch(() => {});
    },
    close() {
      closed = true;
      clearInterval(pulse);
      void session?.then(
        ({ lose }) => lose(),
        () => {},
      );
    },
  };
}

interface Session {
  /** Runs a statement on its connection. */
  run(text: string): Promise<unknown>;
  /** Gives up the connection. */
  lose(): void;
}

/** PostgreSQL limits a notification to less than 8,000 bytes. The remainder is for the header of a part. */
const PART_BYTES = 7900;
/** The maximum number of parts per message, some 25 MB, so that incomplete messages cannot fill the memory. */
const MAX_PARTS = 10_000;

/** Splits a text into parts that each fit into one notification: `=text`, or `+id index count text` if there are several. */
export function split(text: string): string[] {
  if (text.length < PART_BYTES && Buffer.byteLength(text) < PART_BYTES) return [`=${text}`];
  const ascii = Buffer.byteLength(text) === text.length;
  // A UTF-16 code unit takes at most three bytes.
  const size = Math.floor((PART_BYTES - 64) / (ascii ? 1 : 3));
  const pieces: string[] = [];
  for (let at = 0; at < text.length; ) {
    let end = Math.min(at + size, text.length);
    // Do not split a surrogate pair.
    if (isHighSurrogate(text.charCodeAt(end - 1)) && end < text.length) end--;
    pieces.push(text.slice(at, end));
    at = end;
  }
  if (pieces.length > MAX_PARTS) {
    throw new ValiseError(
      'store-invalid',
      `A message of ${text.length} characters is too long for PostgreSQL's bus.`,
      {
        next: 'Put what is large into a store and publish its key.',
      },
    );
  }
  const id = randomBytes(9).toString('base64url');
  return pieces.map((piece, index) => `+${id} ${index} ${pieces.length} ${piece}`);
}

const HEAD = /^\+([\w-]{12}) (\d{1,5}) (\d{1,5}) /;

/** Reassembles the parts. The parts of one message arrive consecutively on their channel. */
export class Assembly {
  readonly #open = new Map<
    string,
    { readonly id: string; readonly count: number; readonly pieces: string[] }
  >();
  readonly #hear: (channel: string, text: string) => void;

  constructor(hear: (channel: string, text: string) => void) {
    this.#hear = hear;
  }

  add(channel: string, payload: string): void {
    if (payload.startsWith('=')) {
      this.#hear(channel, payload.slice(1));
      return;
    }
    const head = HEAD.exec(payload);
    if (!head) return;
    const [start, id, index, count] = head as unknown as [string, string, string, string];
    let message = this.#open.get(channel);
    if (Number(index) === 0 && Number(count) <= MAX_PARTS) {
      this.#open.set(channel, (message = { id, count: Number(count), pieces: [] }));
    }
    if (message?.id !== id || message.pieces.length !== Number(index)) return;
    message.pieces.push(payload.slice(start.length));
    if (message.pieces.length < message.count) return;
    this.#open.delete(channel);
    this.#hear(channel, message.pieces.join(''));
  }
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00;
}
