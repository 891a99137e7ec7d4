import type { Client } from '@modelcontextprotocol/client';
import { describe, expect, it } from 'vitest';
import { call, pinned, TARGETS } from './newer-host.ts';

const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';

/** The first notification of a kind, with a promise of it. */
function next(client: Client, method: 'notifications/message' | 'notifications/resources/updated') {
  return new Promise<Record<string, unknown>>((resolve) =>
    client.setNotificationHandler(method, ({ params }) => resolve(params as Record<string, unknown>)),
  );
}

describe.each(['stdio', 'HTTP'] as const)(
  'valise connect between a host pinned to 2026-07-28 and an older server over %s',
  (kind) => {
    it('shows what the server is and has', async () => {
      const client = await pinned(await TARGETS[kind]());
      expect(client.getServerVersion()).toEqual({ name: 'older', version: '1.2.3' });
      expect(client.getInstructions()).toBe('be patient');
      expect(client.getServerCapabilities()).toMatchObject({ tools: { listChanged: true }, prompts: {} });
      expect((await client.listTools()).tools.map(({ name }) => name)).toContain('add');
      expect(await call(client, 'add', { a: 2, b: 3 })).toBe('5');
      expect((await client.listPrompts()).prompts).toMatchObject([{ name: 'hello' }]);
      expect(await client.getPrompt({ name: 'hello', arguments: { who: 'Ada' } })).toMatchObject({
        messages: [{ content: { text: 'Hello Ada' } }],
      });
      expect((await client.listResources()).resources).toMatchObject([{ name: 'memo' }, { name: 'gone' }]);
      expect((await client.listResourceTemplates()).resourceTemplates).toEqual([]);
      expect(await client.readResource({ uri: 'memo://one' })).toMatchObject({ contents: [{ text: 'one' }] });
    });

    it('takes the envelope off, and turns codes that are no more', async () => {
      const client = await pinned(await TARGETS[kind]());
      expect(await call(client, 'meta')).not.toContain('io.modelcontextprotocol');
      await expect(client.readResource({ uri: 'memo://gone' })).rejects.toMatchObject({ code: -32602 });
    });

    it('asks the host in the middle of a call, one question after the other', async () => {
      const asked: string[] = [];
      const client = await pinned(await TARGETS[kind](), { capabilities: { elicitation: {} } }, (host) =>
        host.setRequestHandler('elicitation/create', ({ params }) => {
          asked.push(params.message);
          return { action: 'accept', content: { name: 'Ada', city: 'London' } };
        }),
      );
      expect(await call(client, 'greet')).toBe('Hello Ada of London');
      expect(asked).toEqual(['Your name?', 'Your city?']);
      // What the host refuses, the server hears of as well.
      client.setRequestHandler('elicitation/create', () => ({ action: 'decline' }));
      expect(await call(client, 'greet')).toBe('not told: decline');
    });

    it('asks several things that the server wants to know at once', async () => {
      const capabilities = { elicitation: {}, roots: {}, sampling: {} };
      const client = await pinned(await TARGETS[kind](), { capabilities }, (host) => {
        host.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { name: 'Ada' } }));
        host.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///home' }] }));
        host.setRequestHandler('sampling/createMessage', () => ({
          role: 'assistant' as const,
          model: 'parrot',
          content: { type: 'text' as const, text: 'hi' },
        }));
      });
      expect(await call(client, 'gather')).toBe('Ada in file:///home says hi');
    });

    it('says to a server that asks outside of any call that it cannot', async () => {
      const client = await pinned(await TARGETS[kind](), { capabilities: { elicitation: {} } }, (host) =>
        host.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { name: 'Ada' } })),
      );
      await client.listen({ resourceSubscriptions: ['memo://ask'] });
      expect(await call(client, 'asked')).toMatch(/asks only during tools\/call/);
    });

    it('hands on progress, and what is logged where the host asked for it', async () => {
      const client = await pinned(await TARGETS[kind]());
      const seen: number[] = [];
      await client.callTool(
        { name: 'count', arguments: {} },
        {
          onprogress: ({ progress }) => {
            seen.push(progress);
            void call(client, 'step');
          },
        },
      );
      expect(seen).toEqual([1, 2]);
      const unasked: unknown[] = [];
      client.setNotificationHandler('notifications/message', (message) => void unasked.push(message));
      expect(await call(client, 'shout')).toBe('not set');
      const logged = next(client, 'notifications/message');
      const loud = { name: 'shout', arguments: {}, _meta: { [LOG_LEVEL]: 'info' } };
      expect(await client.callTool(loud)).toMatchObject({ content: [{ text: 'info' }] });
      expect(await logged).toMatchObject({ data: 'hear, hear' });
      expect(unasked).toEqual([]);
    });

    it('tells a listener that a list or a resource has changed, and nobody after it has ended', async () => {
      const client = await pinned(await TARGETS[kind]());
      const subscription = await client.listen({
        toolsListChanged: true,
        resourceSubscriptions: ['memo://one'],
      });
      expect(subscription.honoredFilter).toEqual({
        toolsListChanged: true,
        resourceSubscriptions: ['memo://one'],
      });
      const changed = new Promise<unknown>((resolve) =>
        client.setNotificationHandler('notifications/tools/list_changed', resolve),
      );
      await call(client, 'grow');
      expect(await changed).toMatchObject({
        params: { _meta: { 'io.modelcontextprotocol/subscriptionId': expect.stringMatching(/^listen:/) } },
      });
      expect((await client.listTools()).tools.map(({ name }) => name)).toContain('grown');
      const updated = next(client, 'notifications/resources/updated');
      expect(await call(client, 'touch')).toBe('memo://one');
      expect(await updated).toMatchObject({ uri: 'memo://one' });
      await subscription.close();
      await expect.poll(() => call(client, 'touch')).toBe('');
    });

    it('cancels', async () => {
      const client = await pinned(await TARGETS[kind]());
      const stop = new AbortController();
      const waiting = client.callTool({ name: 'wait', arguments: {} }, { signal: stop.signal });
      expect(await call(client, 'waiting')).toBe('it waits');
      stop.abort('enough');
      await expect(waiting).rejects.toThrow('enough');
      expect(await call(client, 'was_cancelled')).toBe('cancelled');
    });
  },
);
