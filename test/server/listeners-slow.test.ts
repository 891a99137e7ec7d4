import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it, vi } from 'vitest';
import { MAJORS } from './majors.ts';
import { rawClient } from './raw-client.ts';

const CHANGED = 'notifications/tools/list_changed';

describe.each(MAJORS)('a listener that does not read ($major)', ({ McpServer, Memory }) => {
  it('a listener that does not read holds few notifications in memory, and gets the rest from the log', async () => {
    const rejected: string[] = [];
    const valise = createValise({
      name: 'test',
      store: memoryStore(),
      sessions: {},
      events: { rejected: ({ what, reason }) => rejected.push(`${what}: ${reason}`) },
    });
    const [near, far] = Memory.createLinkedPair();
    const send = far.send.bind(far);
    let read = Promise.resolve();
    far.send = async (message, options) => {
      await read;
      await send(message, options);
    };
    await valise.install(new McpServer({ name: 'test', version: '1.0.0' })).connect(far);
    const client = await rawClient(near, { extensions: { 'dev.valise/sessions': {} } });
    const heard: string[] = [];
    const { onmessage } = near;
    near.onmessage = (message) => {
      if ('method' in message) heard.push(message.method);
      onmessage?.(message);
    };
    void client.request('messages/listen');
    await vi.waitFor(() => expect(heard).toHaveLength(1));
    let go = (): void => undefined;
    read = new Promise((resolve) => {
      go = resolve;
    });
    for (let n = 0; n < 99; n++) await valise.notify(CHANGED);
    expect(rejected).toEqual([]);
    for (let n = 0; n < 60; n++) await valise.notify(CHANGED);
    // Once, however many follow.
    expect(rejected).toEqual([expect.stringMatching(/^notifications for a listener: .*100 wait in memory/)]);
    go();
    await valise.notify(CHANGED);
    const changed = () => heard.filter((method) => method === CHANGED);
    await vi.waitFor(() => expect(changed()).toHaveLength(160));
    await valise.close();
  });
});
