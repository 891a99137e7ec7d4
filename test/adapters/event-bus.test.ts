import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import {
  createMcpHandler,
  McpServer,
  type ServerEvent,
  type ServerEventBus,
} from '@modelcontextprotocol/server';
import { eventBus } from 'mcp-valise/adapters';
import { type Bus, memoryBus, openBus } from 'mcp-valise/store';
import { describe, expect, it, onTestFinished } from 'vitest';
import { service, uniqueName } from '../services.ts';

const buses: [string, (name: string) => Promise<Bus>][] = [['memory', async (name) => memoryBus(name)]];
for (const kind of ['redis', 'postgres'] as const) {
  const url = await service(kind);
  if (url !== undefined) buses.push([kind, () => openBus(url)]);
}

describe.each(buses)('eventBus on %s', (_, open) => {
  /** Two instances on one bus. */
  async function instances(): Promise<readonly [ServerEventBus, ServerEventBus]> {
    const topic = uniqueName();
    const join = async () => {
      const bus = await open(topic);
      onTestFinished(() => bus.close());
      const events = eventBus(bus, { topic });
      await events.ready;
      return events;
    };
    return [await join(), await join()];
  }

  it('tells its own listeners before publish returns, once, and those of other instances over the bus', async () => {
    const [first, second] = await instances();
    const here: ServerEvent[] = [];
    const there: ServerEvent[] = [];
    first.subscribe((event) => here.push(event as ServerEvent));
    const end = second.subscribe((event) => there.push(event as ServerEvent));
    const event = { kind: 'resource_updated', uri: 'file:///a', params: { uri: 'file:///a' } } as const;
    first.publish(event);
    expect(here).toEqual([event]);
    await expect.poll(() => there).toEqual([event]);
    second.publish({ kind: 'tools_list_changed' });
    await expect.poll(() => here).toEqual([event, { kind: 'tools_list_changed' }]);
    expect(there).toHaveLength(2);
    end();
    end();
    second.publish({ kind: 'prompts_list_changed' });
    await expect.poll(() => here.length).toBe(3);
    expect(there).toHaveLength(2);
  });

  it('does not echo an event to the listener that publishes it, nor stop at one that throws', async () => {
    const [first, second] = await instances();
    const own: string[] = [];
    const others: string[] = [];
    const there: string[] = [];
    second.subscribe(({ kind }) => there.push(kind));
    first.subscribe(() => {
      throw new Error('faulty');
    });
    first.subscribe(({ kind }) => {
      own.push(kind);
      first.publish({ kind: 'prompts_list_changed' });
    });
    first.subscribe(({ kind }) => others.push(kind));
    first.publish({ kind: 'tools_list_changed' });
    expect(own).toEqual(['tools_list_changed']);
    expect(others).toEqual(['prompts_list_changed', 'tools_list_changed']);
    await expect.poll(() => [...there].sort()).toEqual(['prompts_list_changed', 'tools_list_changed']);
  });

  it('brings what one instance announces to a stock client that listens at another', async () => {
    const [first, second] = await instances();
    const handlers = [first, second].map((bus) =>
      createMcpHandler(
        () => {
          const server = new McpServer({ name: 'heard', version: '1.0.0' });
          server.registerTool('one', {}, () => ({ content: [] }));
          return server;
        },
        { bus },
      ),
    );
    const client = new Client(
      { name: 'stock', version: '1.0.0' },
      { versionNegotiation: { mode: { pin: '2026-07-28' } } },
    );
    let heard = 0;
    client.setNotificationHandler('notifications/tools/list_changed', () => void heard++);
    const fetch = async (input: string | URL, init?: RequestInit) =>
      (handlers[0] as (typeof handlers)[0]).fetch(new Request(input, init));
    await client.connect(new StreamableHTTPClientTransport(new URL('http://127.0.0.1/mcp'), { fetch }));
    const subscription = await client.listen({ toolsListChanged: true });
    handlers[1]?.notify.toolsChanged();
    await expect.poll(() => heard).toBe(1);
    await subscription.close();
    await client.close();
  });
});

describe('eventBus', () => {
  it('ignores messages that are no events, and reports a bus that cannot be reached', async () => {
    const topic = uniqueName();
    const bus = memoryBus(topic);
    const errors: unknown[] = [];
    const events = eventBus(bus, { topic, onError: (error) => errors.push(error) });
    await events.ready;
    const heard: unknown[] = [];
    events.subscribe((event) => heard.push(event));
    for (const event of [null, 1, {}, { kind: 'else' }, { kind: 'resource_updated' }])
      await bus.publish(topic, { from: 'another', event });
    await bus.publish(topic, 'text');
    await bus.publish(topic, { from: 'another', event: { kind: 'tools_list_changed' } });
    await expect.poll(() => heard).toEqual([{ kind: 'tools_list_changed' }]);
    await bus.close();
    events.publish({ kind: 'tools_list_changed' });
    expect(heard).toHaveLength(2);
    await expect.poll(() => errors).toMatchObject([{ code: 'closed' }]);
  });
});
