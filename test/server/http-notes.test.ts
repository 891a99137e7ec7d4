import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { openValise } from 'mcp-valise/client';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { accept } from './flow-peer.ts';
import { endServers, FORMS, listen } from './http-stage.ts';

afterEach(endServers);

const info = { name: 'test', version: '1.0.0' };

describe.each(Object.entries(FORMS))('what a call sends before it asks (%s)', (name, form) => {
  // An answer in JSON holds nothing else: what is sent after the last question is the SDK's to drop.
  const expected = name.endsWith('JSON') ? ['one', 'two'] : ['one', 'two', 'three'];

  it.each([
    ['a client of Valise', true],
    ['any other client', false],
  ])('comes to %s, also where headers were set before', async (_, withValise) => {
    const serve = form(createValise({ name: 'test', store: memoryStore() }));
    const url = await listen((request, response) => {
      response.setHeader('access-control-allow-origin', '*');
      serve(request, response);
    });
    const client = new Client(info, { capabilities: { elicitation: { form: {} } } });
    client.setRequestHandler('elicitation/create', async () => accept({ name: 'Ada' }) as never);
    const valise = await openValise({ store: memoryStore() });
    if (withValise) await valise.connect(client, url);
    else await client.connect(new StreamableHTTPClientTransport(url));
    const heard: unknown[] = [];
    const result = await client.callTool(
      { name: 'report', arguments: {} },
      { onprogress: ({ message }) => heard.push(message) },
    );
    expect(result).toMatchObject({ content: [{ text: 'done' }] });
    expect(heard).toEqual(expected);
    await client.close();
    await valise.close();
  });
});
