import { Agent, request as send } from 'node:http';
import type { Json } from './mutate.ts';

export const agent: Agent = new Agent({ keepAlive: true, maxSockets: 30 });

/** An answer over HTTP. */
export interface Answer {
  readonly status: number;
  readonly type: string;
  readonly session: string | undefined;
  /** Whole JSON-RPC messages that came. */
  readonly messages: Record<string, Json>[];
  readonly body: string;
  /** The server left the answer open to send more. */
  readonly open: boolean;
}

/** One request. A stream that the server keeps open for more is left once it has told something, or after a moment. */
export function exchange(
  port: number,
  method: string,
  path: string,
  headers: Record<string, string>,
  body: string | undefined,
  mayStayOpen: boolean,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const made = send({ host: '127.0.0.1', port, method, path, headers, agent, setHost: true });
    let timer: NodeJS.Timeout | undefined;
    let isLeft = false;
    const leave = () => {
      isLeft = true;
      made.destroy();
    };
    made.on('error', (error: NodeJS.ErrnoException) => {
      // A request that was left before its response ends as if the connection had been lost. Nobody waits for it any more.
      if (isLeft) return;
      // The server may close a connection that nobody uses, in the moment in which it is used again.
      if (!made.reusedSocket || error.code !== 'ECONNRESET') return reject(error);
      resolve(exchange(port, method, path, { ...headers, connection: 'close' }, body, mayStayOpen));
    });
    made.on('response', (response) => {
      clearTimeout(timer);
      let text = '';
      const type = response.headers['content-type'] ?? '';
      const finish = (open: boolean) => {
        clearTimeout(timer);
        if (open) leave();
        try {
          const session = response.headers['mcp-session-id'];
          resolve({
            status: response.statusCode ?? 0,
            type,
            session: typeof session === 'string' ? session : undefined,
            messages: method === 'HEAD' ? [] : parse(type, text),
            body: text,
            open,
          });
        } catch (error) {
          reject(error);
        }
      };
      response.setEncoding('utf8');
      response.on('error', () => {});
      response.on('data', (chunk: string) => {
        text += chunk;
        // A question of the server's: it waits for the answer, and we do not.
        if (type.startsWith('text/event-stream') && /"method":"(elicitation|sampling|roots|ping)/.test(text))
          finish(true);
      });
      response.on('end', () => finish(false));
      response.on('aborted', () => reject(new Error(`The answer was cut off: ${text}`)));
      if (mayStayOpen) timer = setTimeout(() => finish(true), 50);
    });
    // The SDKs' transports that answer in JSON have no headers to send before a listener is done.
    if (mayStayOpen)
      timer = setTimeout(() => {
        resolve({ status: 200, type: 'none', session: undefined, messages: [], body: '', open: true });
        leave();
      }, 300);
    made.end(body);
  });
}

/** The messages of an answer; throws where it is not well formed. */
function parse(type: string, text: string): Record<string, Json>[] {
  if (type.startsWith('text/event-stream')) {
    const whole = text.slice(0, text.lastIndexOf('\n\n') + 1);
    // Lines of the format, and no others: U+2028 ends a line in a regular expression.
    const data = whole.split('\n').filter((line) => line.startsWith('data:'));
    return data.map((line) => JSON.parse(line.slice('data:'.length)) as Record<string, Json>);
  }
  if (!type.startsWith('application/json')) return [];
  const value = JSON.parse(text) as Record<string, Json> | Record<string, Json>[];
  return Array.isArray(value) ? value : [value];
}
