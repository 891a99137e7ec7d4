import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A wire between a client and a server that can go dead without a word, as when a cable is cut or a firewall forgets. */
export interface Wire {
  /** The server's URL, through the wire. */
  readonly url: string;
  /** What is connected now stays so and hears nothing any more; new connections work. */
  cut(): void;
  /** The next data from the server is lost, and both ends of its connection are closed. */
  loseReply(): void;
  close(): Promise<void>;
}

/** Lays a wire to the server at `url`. */
export async function layWire(url: string): Promise<Wire> {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  let losing = false;
  const server = createServer((near) => {
    const far = connect(Number(target.port), target.hostname);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(one);
      one.on('error', () => other.destroy());
      one.on('close', () => {
        sockets.delete(one);
        if (!cut.has(one)) other.destroy();
      });
      one.pipe(other);
    }
    far.unpipe(near);
    far.resume();
    far.on('data', (data) => {
      if (cut.has(far)) return;
      if (!losing) return void near.write(data);
      losing = false;
      near.destroy();
      far.destroy();
    });
  }).listen(0, '127.0.0.1');
  const cut = new WeakSet<Socket>();
  await once(server, 'listening');
  return {
    url: Object.assign(new URL(url), { port: String((server.address() as AddressInfo).port) }).href,
    cut() {
      for (const socket of sockets) {
        cut.add(socket);
        socket.unpipe();
        socket.resume();
      }
    },
    loseReply() {
      losing = true;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
