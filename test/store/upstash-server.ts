import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { Redis } from 'ioredis';

/** A Redis behind HTTP, in the REST protocol of Upstash. */
export interface UpstashServer {
  readonly url: string;
  readonly token: string;
  /** Both, as a URL for `openStore`. */
  readonly storeUrl: string;
  /** The headers and commands that have arrived. */
  readonly heard: { readonly syncToken: string | undefined; readonly command: readonly string[] }[];
  /** Runs the next command and closes the connection instead of answering; then calls `after`. */
  loseReply(after?: () => void): void;
  /** Answers the next requests with these statuses, without running their commands. */
  answerWith(...statuses: number[]): void;
  /** Holds every request back until the function returned is called. */
  freeze(): () => void;
  close(): Promise<void>;
}

/** Serves `redis` over HTTP: a POST with a command as a JSON array is answered with `result` or `error`. */
export async function startUpstash(redis: string): Promise<UpstashServer> {
  const client = new Redis(redis);
  const token = 'dG9rZW4=';
  const heard: UpstashServer['heard'] = [];
  const statuses: number[] = [];
  let losing: (() => void) | undefined;
  let frozen: Promise<void> | undefined;
  let writes = 0;

  const server = createServer(async (request, response) => {
    const body = await text(request);
    await frozen;
    const answer = (status: number, value: unknown) =>
      response
        .writeHead(status, { 'content-type': 'application/json', 'upstash-sync-token': `${++writes}` })
        .end(JSON.stringify(value));
    if (request.headers.authorization !== `Bearer ${token}`)
      return answer(401, { error: 'WRONGPASS invalid or missing auth token' });
    if (request.method !== 'POST' || request.url !== '/') return answer(405, { error: 'ERR bad method' });
    const status = statuses.shift();
    if (status !== undefined) return void response.writeHead(status).end('<html>a proxy says this</html>');
    const command = JSON.parse(body) as [string, ...string[]];
    heard.push({ syncToken: request.headers['upstash-sync-token'] as string | undefined, command });
    const [code, value] = await client.call(...command).then(
      (result) => [200, { result }] as const,
      (error: Error) => [400, { error: error.message }] as const,
    );
    if (!losing) return answer(code, value);
    const after = losing;
    losing = undefined;
    request.socket.destroy();
    after();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');

  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: `http://${host}`,
    token,
    storeUrl: `upstash://${encodeURIComponent(token)}@${host}`,
    heard,
    loseReply(after = () => {}) {
      losing = after;
    },
    answerWith(...next) {
      statuses.push(...next);
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
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
      client.disconnect();
    },
  };
}
