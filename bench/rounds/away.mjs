// A proxy that adds a millisecond of latency, as between machines of one data center; loopback has almost none.
import { connect, createServer } from 'node:net';

/** Listens on loopback and forwards everything to `url` a millisecond later. Returns the URL of the proxy. */
export async function away(url) {
  const { hostname, port } = new URL(url);
  const sockets = new Set();
  const server = createServer({ noDelay: true }, (near) => {
    const far = connect({ host: hostname, port: Number(port), noDelay: true });
    near.on('data', (chunk) => setTimeout(() => far.write(chunk), 1));
    far.on('data', (chunk) => near.write(chunk));
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ]) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => other.destroy());
    }
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const farther = new URL(url);
  farther.port = String(server.address().port);
  return {
    url: farther.href,
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
