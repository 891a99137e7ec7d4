import { once } from 'node:events';
import { connect as connectTo } from 'node:net';
import { PassThrough } from 'node:stream';
import { StdioServerTransport as StdioV1 } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StdioServerTransport as StdioV2 } from '@modelcontextprotocol/server/stdio';
import { createValise, type ServerEvents, type ServerValise } from 'mcp-valise/server';
import { afterEach, describe, expect, it } from 'vitest';
import { because } from '../skip.ts';
import { build, endServers, FORMS, HEADERS, initialize, listen, post } from './http-stage.ts';
import { MAJORS } from './majors.ts';

const LIMIT = 64 * 1024;
/** What the kernel and Node hold between the two sides, besides the limit. */
const SLACK = 16 * 1024 * 1024;
const PIECE = 'x'.repeat(16 * 1024);

afterEach(endServers);

function limited(options: object = { maxMessageBytes: LIMIT }) {
  const valise = createValise({ name: 'test', ...options });
  const cut: ServerEvents['message-too-large'][] = [];
  valise.on('message-too-large', (event) => cut.push(event));
  return { valise, cut };
}

/** Sends the beginning of a request and then bytes without end: what came back, and how much went out. */
async function endless(url: URL, head: string, piece = PIECE) {
  const socket = connectTo(Number(url.port), '127.0.0.1');
  await once(socket, 'connect');
  let received = '';
  socket.on('data', (data) => (received += data));
  socket.on('error', () => {});
  let sent = 0;
  socket.write(head);
  const closed = new Promise((resolve) => socket.once('close', resolve));
  const more = (): void => {
    while (!socket.destroyed && sent < 64 * SLACK) {
      sent += piece.length;
      if (!socket.write(piece)) return void socket.once('drain', more);
    }
    socket.destroy();
  };
  more();
  await closed;
  return { received, sent };
}

const requestLine = (framing: string): string =>
  [
    'POST /mcp HTTP/1.1',
    'host: 127.0.0.1',
    ...Object.entries(HEADERS).map(([name, value]) => `${name}: ${value}`),
    framing,
    '',
    '',
  ].join('\r\n');

const CHUNK = `${PIECE.length.toString(16)}\r\n${PIECE}\r\n`;
const hello = initialize({});
const padded = (bytes: number) => {
  const text = JSON.stringify({ ...hello, params: { ...hello.params, pad: '' } });
  return text.replace('"pad":""', `"pad":"${'x'.repeat(bytes - text.length)}"`);
};

describe.each(Object.entries(FORMS))('An HTTP server with a limit for requests (%s)', (name, form) => {
  // Inside the Node adapter of SDK v2, whose own limit of 4 MiB comes first.
  const isInside = name.endsWith(', web standard');

  it.each([
    ['endless chunks', 'transfer-encoding: chunked', CHUNK],
    ['a length of ten gigabytes', 'content-length: 10000000000', PIECE],
  ])('an HTTP server closes the connection of a request of %s', async (_, framing, piece) => {
    const { valise, cut } = limited();
    const { sent } = await endless(await listen(form(valise)), requestLine(framing), piece);
    expect(sent).toBeLessThan(2 * LIMIT + SLACK);
    expect(cut).toEqual(isInside ? [] : [{ what: 'body', maxBytes: LIMIT }]);
  });

  it('an HTTP server accepts a body of the size of the limit, and answers a larger one with 413', async () => {
    const { valise, cut } = limited();
    const url = await listen(form(valise));
    expect(await post(url, padded(LIMIT))).toMatchObject({ status: 200 });
    expect(await post(url, padded(LIMIT + 1))).toMatchObject({
      status: 413,
      message: { error: { message: expect.stringContaining(`must not exceed ${LIMIT} bytes`) } },
    });
    expect(cut).toEqual([{ what: 'body', maxBytes: LIMIT }]);
  });

  it.skipIf(isInside)(
    'an HTTP server accepts bodies above the default of the SDKs if the limit allows',
    because('the SDK reads the body itself, with its own limit'),
    async () => {
      const { valise } = limited({ maxMessageBytes: 8 * 1024 * 1024 });
      expect(await post(await listen(form(valise)), padded(6 * 1024 * 1024))).toMatchObject({ status: 200 });
    },
  );
});

describe('a web-standard request', () => {
  it('a web-standard request is limited by the bytes received, not by the content-length of the compressed body', async () => {
    const { valise, cut } = limited();
    const serve = valise.http(async () => new Response('{}'));
    let given = 0;
    let cancelled = false;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        given += PIECE.length;
        if (given > 1000 * LIMIT) controller.close();
        else controller.enqueue(Buffer.from(PIECE));
      },
      cancel() {
        cancelled = true;
      },
    });
    const headers = { ...HEADERS, 'content-length': '100', 'content-encoding': 'gzip' };
    const init = { method: 'POST', headers, body, duplex: 'half' };
    expect((await serve(new Request('http://127.0.0.1/mcp', init as RequestInit))).status).toBe(413);
    expect(cancelled).toBe(true);
    expect(given).toBeLessThan(LIMIT + 4 * PIECE.length);
    expect(cut).toHaveLength(1);
  });
});

describe.each([
  { ...MAJORS[0], Stdio: StdioV1 },
  { ...MAJORS[1], Stdio: StdioV2 },
])('A stdio server with a limit for lines, SDK $major', ({ Stdio, ...major }) => {
  async function start(valise: ServerValise) {
    const input = new PassThrough();
    const output = new PassThrough();
    const server = build(valise, major);
    const errors: unknown[] = [];
    server.server.onerror = (error) => void errors.push(error);
    await server.connect(new Stdio(valise.stdin(input), output as never) as never);
    const lines: Record<string, unknown>[] = [];
    let rest = '';
    output.on('data', (data) => {
      const parts = (rest + data).split('\n');
      rest = parts.pop() ?? '';
      lines.push(...parts.map((line) => JSON.parse(line) as Record<string, unknown>));
      output.emit('line');
    });
    const answer = async (id: number | string) => {
      for (;;) {
        const found = lines.find((line) => line['id'] === id);
        if (found) return found;
        await once(output, 'line');
      }
    };
    input.write(`${JSON.stringify(hello)}\n`);
    await answer(0);
    return { input, answer, errors };
  }
  const pad = 'é'.repeat(LIMIT);
  const error = {
    code: -32_000,
    message: expect.stringContaining(`sent a line of more than ${LIMIT} bytes`),
    data: { code: 'too-large', maxBytes: LIMIT },
  };

  it.each([
    ['its id last', `{"method":"tools/call","params":{"x":"${pad}"},"jsonrpc":"2.0","id":5}`],
    ['its id first', `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"id":4,"x":"${pad}"}}`],
  ])(
    'a stdio server answers a request that is too large with an error, with %s, and serves the next one',
    async (_, line) => {
      const { valise, cut } = limited();
      const { input, answer } = await start(valise);
      const ping = `{"jsonrpc":"2.0","id":6,"method":"ping"}`;
      const bytes = Buffer.from(`${ping}\n${line}\n${ping.replace('6', '7')}\n`);
      for (let at = 0; at < bytes.length; at += 10_000) input.write(bytes.subarray(at, at + 10_000));
      expect(await answer(5)).toMatchObject({ error });
      for (const id of [6, 7]) expect(await answer(id)).toMatchObject({ result: {} });
      expect(cut).toEqual([{ what: 'line', maxBytes: LIMIT }]);
    },
  );

  it('a stdio server skips a notification that is too large', async () => {
    const { valise, cut } = limited();
    const { input, answer } = await start(valise);
    input.write(`{"jsonrpc":"2.0","method":"notifications/x","params":{"x":"${pad}"}}\n`);
    input.write('{"jsonrpc":"2.0","id":6,"method":"ping"}\n');
    expect(await answer(6)).toMatchObject({ result: {} });
    expect(cut).toHaveLength(1);
  });

  it('a stdio server closes its input if a line does not end', async () => {
    const { valise, cut } = limited();
    const { input, errors } = await start(valise);
    let sent = 0;
    input.write('{"jsonrpc":"2.0","id":5,"method":"');
    const closed = once(input, 'close').then(() => true);
    const more = async () => {
      while (!input.destroyed && sent < 100 * LIMIT) {
        sent += PIECE.length;
        if (!input.write(PIECE)) await Promise.race([once(input, 'drain'), closed]);
      }
      return false;
    };
    void more();
    expect(await closed).toBe(true);
    expect(sent).toBeLessThan(2 * LIMIT + 16 * PIECE.length);
    expect(errors).toMatchObject([{ code: 'too-large' }]);
    expect(cut).toEqual([{ what: 'line', maxBytes: LIMIT }]);
  });
});
