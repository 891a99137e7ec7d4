import { describe, expect, it } from 'vitest';
import { ValiseError } from '../../src/errors.ts';
import { attach } from '../../src/server/attach.ts';
import { serverEvents } from '../../src/server/events.ts';
import { faultOn } from '../../src/server/fault.ts';
import type { ServerPart } from '../../src/server/part.ts';
import type { Message } from '../../src/wire/index.ts';
import { MAJORS, setHandler } from './majors.ts';

const broken = (): never => {
  throw new Error('the disk at /srv/state is gone');
};
const brokenLater = async (): Promise<never> => broken();

const PARTS: Record<string, ServerPart> = {
  'on the way in': { receive: broken },
  'on the way in, later': { receive: brokenLater },
  'on the way out': { receive: (exchange) => void exchange.whenAnswered(broken) },
  'on the way out, later': { receive: (exchange) => void exchange.whenAnswered(brokenLater) },
};

describe.each(MAJORS)('a request that a part fails on ($major)', ({ McpServer, Memory }) => {
  it.each(Object.entries(PARTS))(
    'is answered %s, without the reason; the author hears it',
    async (_, part) => {
      const warnings: string[] = [];
      const events = serverEvents({ warning: ({ what }) => warnings.push(what) });
      const [client, transport] = Memory.createLinkedPair();
      const server = new McpServer({ name: 'test', version: '1.0.0' });
      attach(server, transport as never, {
        owner: {},
        parts: [part],
        principalOf: () => undefined,
        fault: faultOn(events),
      });
      await server.connect(transport);
      const answer = new Promise<Message>((resolve) => {
        client.onmessage = (message) => resolve(message as Message);
      });
      await client.start();
      await client.send({ jsonrpc: '2.0', id: 5, method: 'ping' });
      expect(await answer).toEqual({
        jsonrpc: '2.0',
        id: 5,
        error: {
          code: -32603,
          message: 'Internal error: the server could not work on the request.',
          data: { 'dev.valise/undone': true },
        },
      });
      expect(warnings.join()).toContain('the disk at /srv/state is gone');
    },
  );
});

it('what failed and the next step are told apart, also where one is in the words of the other', () => {
  const told: object[] = [];
  const fault = faultOn(serverEvents({ warning: (event) => told.push(event) }));
  fault(new ValiseError('store-gone', 'It said: " Try again.".', { next: 'Try again.' }));
  expect(told).toMatchObject([
    { what: 'A request could not be served: It said: " Try again.".', next: 'Try again.' },
  ]);
});

describe.each(MAJORS)('a request that was cancelled ($major)', (major) => {
  it('is not waited for any more, since the SDK does not answer it', async () => {
    const answered: unknown[] = [];
    const receive: ServerPart['receive'] = (exchange) =>
      exchange.whenAnswered((response) => {
        answered.push(response.id);
        return response;
      }) as undefined;
    const [client, transport] = major.Memory.createLinkedPair();
    const server = new major.McpServer({ name: 'test', version: '1.0.0' });
    setHandler(major, server, 'ping', () => new Promise(() => {}));
    attach(server, transport as never, {
      owner: {},
      parts: [{ receive }],
      principalOf: () => undefined,
      fault: faultOn(serverEvents({})),
    });
    await server.connect(transport);
    await client.start();
    for (const id of [5, 6]) await client.send({ jsonrpc: '2.0', id, method: 'ping' });
    await client.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 5 } });
    for (const id of [5, 6]) await transport.send({ jsonrpc: '2.0', id, result: {} });
    expect(answered).toEqual([6]);
  });
});
