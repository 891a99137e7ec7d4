import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, it, onTestFinished } from 'vitest';
import { rawServer } from '../client/rounds-server.ts';
import { VALISE, valise } from './valise.ts';

const EVERYTHING = join(
  import.meta.dirname,
  '../../node_modules/@modelcontextprotocol/server-everything/dist/index.js',
);

interface Line {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: { readonly pid?: number };
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly code: number; readonly message: string };
}

/** A host that writes lines, and reads them. */
function start(target = `stdio:${process.execPath} ${EVERYTHING} stdio`) {
  const child = spawn(process.execPath, [VALISE, 'connect', target, '--store', 'memory:'], {
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  const closed = once(child, 'close');
  onTestFinished(async () => {
    child.stdin.end();
    await closed;
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    child,
    closed,
    write: (value: unknown) => void child.stdin.write(`${JSON.stringify(value)}\n`),
    /** The next line of which this is true. */
    async until(fits: (line: Line) => boolean): Promise<Line> {
      for (;;) {
        const { value, done } = await lines.next();
        if (done) throw new Error('the bridge is gone');
        const line = JSON.parse(value) as Line;
        if (fits(line)) return line;
      }
    },
  };
}

const INITIALIZE = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 'host', version: '1' } },
};
const INITIALIZED = { jsonrpc: '2.0', method: 'notifications/initialized' };

describe('valise connect, line by line', { timeout: 30_000 }, () => {
  it.each([
    { line: '{"foo":1}', answer: { id: null, error: { code: -32600 } } },
    { line: '{"id":7}', answer: { id: 7, error: { code: -32600 } } },
    { line: '"ping"', answer: { id: null, error: { code: -32600 } } },
    { line: '[]', answer: { id: null, error: { code: -32600 } } },
    { line: '{', answer: { id: null, error: { code: -32700 } } },
  ])('says that $line is no message', async ({ line, answer }) => {
    const { child, until } = start();
    child.stdin.write(`${line}\n`);
    expect(await until(() => true)).toMatchObject(answer);
  });

  it('hands on each message of a batch', async () => {
    const { write, until } = start();
    write(INITIALIZE);
    await until(({ id }) => id === 1);
    write([INITIALIZED, { jsonrpc: '2.0', id: 2, method: 'tools/list' }, { foo: 1 }]);
    expect(await until(({ id }) => id === null)).toMatchObject({ error: { code: -32600 } });
    expect(await until(({ id }) => id === 2)).toMatchObject({ result: { tools: expect.any(Array) } });
  });

  it('answers a request of more than 64 MiB with an error, and serves the next one', async () => {
    const { child, write, until } = start();
    write(INITIALIZE);
    await until(({ id }) => id === 1);
    child.stdin.write('{"method":"tools/call","params":{"x":"');
    for (let sent = 0; sent <= 64; sent++) child.stdin.write('x'.repeat(1024 * 1024));
    child.stdin.write('"},"jsonrpc":"2.0","id":2}\n');
    expect(await until(({ id }) => id === 2)).toMatchObject({
      error: { code: -32000, message: expect.stringContaining('a line of more than 67108864 bytes') },
    });
    write({ jsonrpc: '2.0', id: 3, method: 'tools/list' });
    expect(await until(({ id }) => id === 3)).toMatchObject({ result: { tools: expect.any(Array) } });
  });

  it('takes a last line without an end', async () => {
    const { child, until } = start();
    child.stdin.end('{"foo":1}');
    expect(await until(() => true)).toMatchObject({ error: { code: -32600 } });
  });

  it('takes its server along when the host ends it by a signal', async () => {
    // It does not care whether its input ends.
    const server = `'console.log(JSON.stringify({ jsonrpc: "2.0", method: "pid", params: { pid: process.pid } })); setInterval(() => {}, 1000)'`;
    const { child, closed, until } = start(`stdio:${process.execPath} -e ${server}`);
    const { params } = await until(({ method }) => method === 'pid');
    child.kill('SIGTERM');
    await closed;
    expect(() => process.kill(params?.pid as number, 0)).toThrow(/ESRCH/);
  });

  it('says that it was the host who left', async () => {
    const { child, closed, write, until } = start();
    write(INITIALIZE);
    await until(({ id }) => id === 1);
    write(INITIALIZED);
    const params = {
      name: 'trigger-long-running-operation',
      arguments: { duration: 3600, steps: 36_000 },
      _meta: { progressToken: 'p' },
    };
    write({ jsonrpc: '2.0', id: 2, method: 'tools/call', params });
    await until(({ method }) => method === 'notifications/progress');
    child.stdin.end();
    const { error } = await until(({ id }) => id === 2);
    expect(error?.message).toBe('valise connect: The host closed its side.');
    expect(await closed).toEqual([0, null]);
  });

  it('answers a call that the server takes as if it needed no answer', async () => {
    const server = await rawServer(() => undefined);
    onTestFinished(() => server.close());
    const { write, until } = start(server.url.href);
    write(INITIALIZE);
    await until(({ id }) => id === 1);
    write(INITIALIZED);
    write({ jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'x', arguments: {} } });
    const { error } = await until(({ id }) => id === 2);
    expect(error?.message).toContain('without a response (202)');
    const called = await valise(['call', server.url.href, 'x', '--store', 'memory:']);
    expect(called).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('without a response (202)'),
    });
  });
});
