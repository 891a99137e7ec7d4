import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

/** A wire between a client and a server that can go dead without a word, as when a cable is cut or a firewall forgets. */
export interface Wire {
  /** The server's URL, through the wire. */
  readonly url: string;
  /** What is connected now stays so and hears nothing any more; new connections work. */
  cut(): void;
  /** The next data from the server is lost, and both ends of its connection are closed; then `after` is called. */
  loseReply(after?: () => void): void;
  /** Nothing passes, on old and new connections, until the function returned is called; then all of it does. */
  freeze(): () => void;
  /** Everything takes this much longer, in each direction, in milliseconds. */
  slow(ms: number): void;
  /** From now on nobody can connect, until `mend()`; what is connected stays so, or is closed. */
  refuse(connected: 'stays' | 'closes'): void;
  mend(): void;
  close(): Promise<void>;
}

/** Lays a wire to the server at `url`. */
export async function layWire(url: string): Promise<Wire> {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  const cut = new WeakSet<Socket>();
  let losing: (() => void) | undefined;
  let delay = 0;
  let frozen: Promise<void> | undefined;

  /** Hands on what arrives, in order, when it is due. */
  const handOn = (from: Socket, to: Socket, isReply: boolean) => {
    let last: Promise<unknown> | undefined;
    from.on('data', (data) => {
      if (cut.has(from)) return;
      if (isReply && losing) {
        const after = losing;
        losing = undefined;
        from.destroy();
        to.destroy();
        return after();
      }
      if (!last && !frozen && delay === 0) return void to.write(data);
      const held = Promise.all([last, frozen, delay > 0 && pause(delay)]).then(() => {
        if (!to.destroyed) to.write(data);
        if (last === held) last = undefined;
      });
      last = held;
    });
  };
  let refusing = false;

  const server = createServer((near) => {
    if (refusing) return void near.destroy();
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
      handOn(one, other, one === far);
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: Object.assign(new URL(url), { port: String((server.address() as AddressInfo).port) }).href,
    cut() {
      for (const socket of sockets) cut.add(socket);
    },
    loseReply(after = () => {}) {
      losing = after;
    },
    freeze() {
      let thaw = (): void => {};
      frozen = new Promise((resolve) => {
        thaw = () => {
          frozen = undefined;
          resolve();
        };
      });
      return thaw;
    },
    slow(ms) {
      delay = ms;
    },
    refuse(connected) {
      refusing = true;
      if (connected === 'closes') for (const socket of sockets) socket.destroy();
    },
    mend() {
      refusing = false;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
