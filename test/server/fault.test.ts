import { describe, expect, it, vi } from 'vitest';
import { ValiseError } from '../../src/core/errors.ts';
import { AttachedServer, type Attachment } from '../../src/server/attach.ts';
import { serverEvents } from '../../src/server/events.ts';
import type { ServerMiddleware } from '../../src/server/exchange.ts';
import { faultOn } from '../../src/server/fault.ts';
import type { Message } from '../../src/wire/index.ts';
import { MAJORS, setHandler } from './majors.ts';

const broken = (): never => {
  throw new Error('the disk at /srv/state is gone');
};
const brokenLater = async (): Promise<never> => broken();

const MIDDLEWARES: Record<string, readonly [ServerMiddleware, outcome: 'not-done' | 'unknown']> = {
  'on the way in': [broken, 'not-done'],
  'on the way in, later': [brokenLater, 'not-done'],
  'on the way out': [(_, next) => next().then(broken), 'unknown'],
  'on the way out, later': [(_, next) => next().then(brokenLater), 'unknown'],
};

const WORDS = {
  'not-done': 'Internal error: the server could not work on the request.',
  unknown:
    'Internal error: the server could not finish the request, and does not know whether it took effect. Check before you send it again.',
};

const attachment = (stack: readonly ServerMiddleware[], fault: Attachment['fault']): Attachment => ({
  owner: {},
  stack,
  outgoing: [],
  answers: () => false,
  families: () => ({}),
  notifying: (notification) => notification,
  answered: () => false,
  principalOf: () => undefined,
  tellCaller: undefined,
  fault,
});

describe.each(MAJORS)('a request that a middleware fails on ($major)', ({ McpServer, Memory }) => {
  it.each(Object.entries(MIDDLEWARES))(
    'a request whose middleware fails %s gets an error without the reason, and the author learns the reason',
    async (_, [middleware, outcome]) => {
      const warnings: string[] = [];
      const events = serverEvents({ warning: ({ what }) => warnings.push(what) });
      const [client, transport] = Memory.createLinkedPair();
      const server = new McpServer({ name: 'test', version: '1.0.0' });
      new AttachedServer(server, transport as never, attachment([middleware], faultOn(events)));
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
          message: WORDS[outcome],
          data: { 'dev.valise/outcome': outcome },
        },
      });
      expect(warnings.join()).toContain('the disk at /srv/state is gone');
    },
  );
});

it('a warning separates the failure from the next step, even if one text contains the other', () => {
  const told: object[] = [];
  const fault = faultOn(serverEvents({ warning: (event) => told.push(event) }));
  fault(new ValiseError('store-failed', 'It said: " Try again.".', { next: 'Try again.' }));
  expect(told).toMatchObject([
    { what: 'A request could not be served: It said: " Try again.".', next: 'Try again.' },
  ]);
});

describe.each(MAJORS)('a canceled request ($major)', (major) => {
  it('Valise stops waiting for a canceled request, since the SDK does not answer it', async () => {
    const answered: unknown[] = [];
    const middleware: ServerMiddleware = async (_, next) => {
      const response = await next();
      answered.push(response.id);
      return response;
    };
    const [client, transport] = major.Memory.createLinkedPair();
    const server = new major.McpServer({ name: 'test', version: '1.0.0' });
    setHandler(major, server, 'ping', () => new Promise(() => {}));
    new AttachedServer(server, transport as never, attachment([middleware], faultOn(serverEvents({}))));
    await server.connect(transport);
    await client.start();
    for (const id of [5, 6]) await client.send({ jsonrpc: '2.0', id, method: 'ping' });
    await client.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 5 } });
    for (const id of [5, 6]) await transport.send({ jsonrpc: '2.0', id, result: {} });
    await vi.waitFor(() => expect(answered).toEqual([6]));
  });
});
