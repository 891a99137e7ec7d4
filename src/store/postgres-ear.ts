import { setTimeout as pause } from 'node:timers/promises';
import type { PostgresClient, PostgresConnection } from './postgres-connection.ts';

/** A connection that listens, and comes back where it is lost. */
export interface Ear {
  listen(channel: string): Promise<void>;
  unlisten(channel: string): Promise<void>;
  close(): void;
}

/** Opens an ear on the connection; channels are plain names. */
export function openEar(
  connection: PostgresConnection,
  hear: (channel: string, payload: string) => void,
): Ear {
  const channels = new Set<string>();
  let session: Promise<Session> | undefined;
  let closed = false;

  /** One statement after the other: a client of `pg` must not be given a second one while it works on the first. */
  const inTurn = (client: PostgresClient): Session['tell'] => {
    let last: Promise<unknown> = Promise.resolve();
    return (text) => {
      const told = last.then(() => connection.ask(client, text));
      last = told.catch(() => undefined);
      return told;
    };
  };

  const connect = async (): Promise<Session> => {
    const client = await connection.checkout();
    const tell = inTurn(client);
    let live = true;
    const lose = () => {
      if (!live) return;
      live = false;
      session = undefined;
      client.release(true);
      if (!closed) void comeBack();
    };
    client.on('error', lose);
    client.on('end', lose);
    client.on('notification', ({ channel, payload = '' }) => {
      if (live) hear(channel, payload);
    });
    try {
      if (closed) throw new Error('closed');
      if (channels.size > 0) await tell([...channels].map((name) => `LISTEN ${name}`).join('; '));
    } catch (error) {
      lose();
      throw error;
    }
    return { tell, lose };
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

  /** Until the server is back, however long it takes. */
  const comeBack = async () => {
    while (!closed && channels.size > 0) {
      const back = await current().then(
        () => true,
        () => false,
      );
      if (back) return;
      await pause(200);
    }
  };

  // A silent connection may be a dead one: it is asked now and then, and given up where it does not answer.
  const pulse = setInterval(async () => {
    const now = await session?.catch(() => undefined);
    if (now) await now.tell('SELECT 1').catch(now.lose);
  }, 3 * connection.timeout);
  pulse.unref();

  return {
    async listen(channel) {
      channels.add(channel);
      const { tell, lose } = await current();
      await tell(`LISTEN ${channel}`).catch(async () => {
        // Lost in the middle: the next session listens to all channels from its start.
        lose();
        await current();
      });
    },
    async unlisten(channel) {
      channels.delete(channel);
      const now = await session?.catch(() => undefined);
      // Where this fails the connection is lost, and the next one will not listen for it.
      if (now && !channels.has(channel)) await now.tell(`UNLISTEN ${channel}`).catch(() => {});
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
  tell(text: string): Promise<void>;
  /** Gives the connection up. */
  lose(): void;
}
