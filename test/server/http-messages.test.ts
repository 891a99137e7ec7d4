import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { openValise } from 'mcp-valise/client';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { accept } from './flow-peer.ts';
import { endServers, FORMS, listen } from './http-stage.ts';

afterEach(endServers);

const info = { name: 'test', version: '1.0.0' };

describe.each(Object.entries(FORMS))('The messages of a call that asks (%s)', (name, form) => {
  it.each([
    ['a client of Valise', true],
    ['any other client', false],
  ])(
    'the messages of a call that asks reach %s in order, even if headers were set before',
    async (_, withValise) => {
      // A response in JSON holds nothing else, so the SDK drops what is sent after the last question. The mailbox does not.
      const isDropped = withValise && name.endsWith('JSON');
      const expected = isDropped ? ['one', 'two'] : ['one', 'two', 'three'];
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
    },
  );
});
