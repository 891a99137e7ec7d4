import { connect } from 'node:net';
import { text } from 'node:stream/consumers';

/** Request lines that are no request for a path: malformed, of another form, or of another protocol. */
export const ODD_LINES = [
  'GET //',
  'GET ///',
  'GET //[',
  'GET //:99999/mcp',
  'GET http://[',
  'GET http://',
  'GET http://%',
  'GET https://[::1/mcp',
  'GET ftp://example.com/mcp',
  'GET mcp',
  'GET ?x=1',
  'GET *',
  'OPTIONS *',
  'POST //',
  'POST *',
  'DELETE //',
  'CONNECT 127.0.0.1:80',
  'CONNECT //',
] as const;

/** Sends one request as it is written; the status of the answer, 0 if the connection was closed without one. */
export async function rawStatus(
  port: string | number,
  line: string,
  host = `127.0.0.1:${port}`,
): Promise<number> {
  const socket = connect(Number(port), '127.0.0.1');
  socket.write(`${line} HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
  const answer = await text(socket).catch(() => '');
  return Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? 0);
}
