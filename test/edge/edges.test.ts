import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { raise, takeTop } from '../../src/edge/drafts.ts';
import { edgeFetch, withHints } from '../../src/edge/fetch.ts';
import { lowerSse } from '../../src/edge/sse.ts';
import { lineLowering } from '../../src/edge/stdio.ts';
import { StdioClientTransport } from '../../src/edge/stdio-client.ts';
import type { Message, Response as RpcResponse } from '../../src/wire/index.ts';

const hot = '{"jsonrpc":"2.0","id":1,"method":"ping","state":1.0}';
const cold = '{"jsonrpc":"2.0", "id":2,"method":"ping"}';
const topOf = (json: string) => takeTop(JSON.parse(json) as Message).top;

function streamOf(chunks: readonly Uint8Array<ArrayBuffer>[]): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
}

async function through(chunks: readonly Uint8Array<ArrayBuffer>[]): Promise<string> {
  return new Response(lowerSse(streamOf(chunks))).text();
}

async function joined(stream: ReadableStream<string>): Promise<string> {
  let out = '';
  for await (const chunk of stream) {
    expect(chunk).toBeTypeOf('string');
    out += chunk;
  }
  return out;
}

/** Cuts bytes at the given places, wherever these fall: also inside a character or a line end. */
function cut(bytes: Uint8Array<ArrayBuffer>, places: readonly number[]): Uint8Array<ArrayBuffer>[] {
  const at = [...new Set([0, ...places.map((place) => place % bytes.length), bytes.length])].sort(
    (a, b) => a - b,
  );
  return at.slice(1).map((end, index) => bytes.slice(at[index], end));
}

describe('the edge of an SSE stream', () => {
  it.each(['\n', '\r\n', '\r'])(
    'The SSE edge lowers relevant events and passes the others, with line ends %j and any chunking',
    async (nl) => {
      const stream = [
        `id: 1`,
        `data: ${hot}`,
        '',
        ': keep-alive',
        '',
        'event: message',
        `data: ${cold} ü€😀`,
        '',
        '',
      ].join(nl);
      const bytes = new TextEncoder().encode(stream);
      await fc.assert(
        fc.asyncProperty(fc.array(fc.nat(), { maxLength: 12 }), async (places) => {
          const out = await through(cut(bytes, places));
          const data = out.split(/\r\n|\n|\r/).filter((line) => line.startsWith('data:'));
          expect(topOf(data[0]?.slice(6) ?? '')).toEqual({ state: '1.0' });
          expect(data[1]).toBe(`data: ${cold} ü€😀`);
          expect(out).toContain('id: 1');
          expect(out).toContain(': keep-alive');
        }),
        { numRuns: 40 },
      );
    },
  );

  it('The SSE edge passes irrelevant chunks as the same bytes', async () => {
    const chunk = new TextEncoder().encode(`data: ${cold}\n\n`);
    const reader = lowerSse(streamOf([chunk])).getReader();
    expect((await reader.read()).value).toBe(chunk);
  });

  it('The SSE edge yields text to a reader that decodes it first, as both SDKs do', async () => {
    const bytes = new TextEncoder().encode(`\uFEFFdata: ${hot}\n\ndata: ${cold} ü€😀\n\ndata: unfinished 😀`);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(), { maxLength: 12 }), async (places) => {
        const stream = lowerSse(streamOf(cut(bytes, places)));
        const decoded = stream.pipeThrough(new TextDecoderStream());
        expect(decoded).toBe(stream);
        expect(await joined(decoded)).toBe(await through(cut(bytes, places)));
      }),
      { numRuns: 40 },
    );
  });

  it.each([
    ['leniently', { ignoreBOM: true }],
    ['strictly', { fatal: true }],
  ])('The SSE edge yields bytes to a reader that decodes it %s', async (_, options) => {
    const chunks = cut(new TextEncoder().encode('\uFEFFdata: a 😀\n\n'), [2, 12]);
    const decoded = lowerSse(streamOf(chunks)).pipeThrough(new TextDecoderStream('utf-8', options));
    expect(await joined(decoded)).toBe('data: a 😀\n\n');
  });

  it('The SSE edge keeps the first event of a stream whose byte order mark is split, as bytes too', async () => {
    const bytes = new TextEncoder().encode(`\uFEFFdata: ${cold}\n\n`);
    for (const at of [1, 2, 3]) expect(await through(cut(bytes, [at]))).toBe(`data: ${cold}\n\n`);
  });

  it('The SSE edge keeps yielding bytes to a reader that has already started', async () => {
    const stream = lowerSse(streamOf([new TextEncoder().encode(`data: ${cold}\n\n`)]));
    const reader = stream.getReader();
    expect(() => stream.pipeThrough(new TextDecoderStream())).toThrow(TypeError);
    expect((await reader.read()).value).toBeInstanceOf(Uint8Array);
  });

  it('The SSE edge reports the last id of complete events, however the stream is split', async () => {
    const bytes = new TextEncoder().encode(
      `id: one\ndata: ${cold}\n\ndata: "id: no"\nid:two\n\nid: nul\0\ndata: x\n\n: id: no\n\nid: unfinished\n`,
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(), { maxLength: 12 }), async (places) => {
        const ids: string[] = [];
        await text(lowerSse(streamOf(cut(bytes, places)), { read: (id) => ids.push(id) }));
        expect(ids.at(-1)).toBe('two');
        expect(['one', 'two']).toEqual(expect.arrayContaining(ids));
      }),
      { numRuns: 40 },
    );
  });

  it('The SSE edge reads an event in many chunks with about the work of many events', async () => {
    const [count, size] = [2000, 1024];
    const chunk = (last: string) => new TextEncoder().encode('x'.repeat(size - last.length) + last);
    const work = async (each: string) => {
      const chunks = Array.from({ length: count }, (_, at) => chunk(at === count - 1 ? '\n\n' : each));
      const before = process.cpuUsage();
      expect(await through(chunks)).toHaveLength(count * size);
      const { user, system } = process.cpuUsage(before);
      return user + system;
    };
    await work('\n\n');
    const [many, one] = [await work('\n\n'), await work('')];
    // Reading everything again for each chunk would be some hundred times the work.
    expect(one).toBeLessThan(15 * many);
  });

  it('The SSE edge joins data over several lines, and leaves other text than JSON unchanged', async () => {
    const out = await through([
      new TextEncoder().encode(
        'data: {"jsonrpc":"2.0","id":1,"method":"ping","state"\ndata: : 7}\n\ndata: "state" no\n\n',
      ),
    ]);
    expect(topOf(out.split('\n')[0]?.slice(6) ?? '')).toEqual({ state: '7' });
    expect(out).toContain('data: "state" no');
  });
});

describe('the edge of a line stream', () => {
  it('The line edge lowers relevant lines and passes the others as the same bytes, however the stream is split', async () => {
    const bytes = new TextEncoder().encode(`${cold} ü\n${hot}\nnot json "state"\n${cold}`);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(), { maxLength: 12 }), async (places) => {
        const out = (
          await text(Readable.from(cut(bytes, places).map((part) => Buffer.from(part))).pipe(lineLowering()))
        ).split('\n');
        expect(out).toHaveLength(4);
        expect([out[0], out[2], out[3]]).toEqual([`${cold} ü`, 'not json "state"', cold]);
        expect(topOf(out[1] ?? '')).toEqual({ state: '1.0' });
      }),
      { numRuns: 40 },
    );
  });
});

describe('the edge of fetch', () => {
  const closing: (() => void)[] = [];
  afterEach(() => {
    for (const close of closing.splice(0)) close();
  });
  async function serve(listener: RequestListener): Promise<string> {
    const server = createServer(listener).listen(0, '127.0.0.1');
    await once(server, 'listening');
    closing.push(() => server.close());
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  }

  it('The fetch edge lowers relevant JSON responses in one parse', async () => {
    const url = await serve((request, response) => {
      response.setHeader('content-type', 'application/json; charset=utf-8');
      response.end(request.url === '/hot' ? hot : cold);
    });
    const answer = await edgeFetch()(`${url}hot`);
    expect(takeTop((await answer.json()) as Message).top).toEqual({ state: '1.0' });
    expect(await (await edgeFetch()(url)).json()).toEqual(JSON.parse(cold));
  });

  it('[R-03] The fetch edge prints an echo exactly', async () => {
    const url = await serve(async (request, response) => response.end(await text(request)));
    const echo = raise({ jsonrpc: '2.0', id: 1, result: {} } as RpcResponse, { state: '{"b": 1.0}' });
    const answer = await edgeFetch()(url, { method: 'POST', body: JSON.stringify(echo) });
    expect(await answer.text()).toBe('{"jsonrpc":"2.0","id":1,"result":{},"state":{"b": 1.0}}');
  });

  it('The fetch edge sets the headers of the message, and reads a response that the SDKs would discard', async () => {
    const url = await serve((request, response) => {
      response.setHeader('content-type', 'application/json');
      response.end(
        JSON.stringify({ got: request.headers['mcp-session-id'], kept: request.headers['x-kept'] }),
      );
    });
    let reply: unknown;
    const headers = { 'Mcp-Session-Id': 's1', 'X-Kept': 'errand' };
    const answer = await withHints({ headers, onReply: (response) => void (reply = response.json()) }, () =>
      edgeFetch()(url, { method: 'POST', headers: { 'x-kept': 'own' }, body: '{}' }),
    );
    expect(answer.status).toBe(202);
    expect(await reply).toEqual({ got: 's1', kept: 'own' });
  });
});

describe('the stdio client transport', () => {
  const script = `
    process.stdin.on('data', (chunk) => {
      process.stdout.write('{"jsonrpc":"2.0","id":5,"method":"ping","state":1.0}\\n' + 'garbage\\n' + JSON.stringify({ jsonrpc: '2.0', method: 'saw', params: { line: String(chunk) } }) + '\\n');
    });`;

  it('[R-03] The stdio transport reads top-level members and prints them exactly', async () => {
    const transport = new StdioClientTransport({ command: process.execPath, args: ['-e', script] });
    const messages: Message[] = [];
    const errors: Error[] = [];
    transport.onerror = (error) => void errors.push(error);
    const both = new Promise<void>((resolve) => {
      transport.onmessage = (message) => {
        messages.push(message as Message);
        if (messages.length === 2) resolve();
      };
    });
    await transport.start();
    expect(transport.pid).toBeGreaterThan(0);
    await transport.send(raise({ jsonrpc: '2.0', id: 5, result: {} } as RpcResponse, { state: '1.0' }));
    await both;
    expect(takeTop(messages[0] as Message).top).toEqual({ state: '1.0' });
    expect(messages[1]).toMatchObject({
      params: { line: '{"jsonrpc":"2.0","id":5,"result":{},"state":1.0}\n' },
    });
    expect(errors).toHaveLength(1);
    const closed = new Promise<void>((resolve) => {
      transport.onclose = resolve;
    });
    await transport.close();
    await closed;
  });

  it('The stdio transport says what is wrong if the command cannot be started or has exited', async () => {
    const transport = new StdioClientTransport({ command: 'no-such-command-of-ours' });
    await expect(transport.start()).rejects.toMatchObject({ code: 'server-unreachable' });
    const idle = new StdioClientTransport({ command: process.execPath });
    await expect(idle.send({ jsonrpc: '2.0', method: 'x' })).rejects.toMatchObject({ code: 'not-connected' });
  });
});
