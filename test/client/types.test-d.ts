import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { type ClientValise, type JarEntry, openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { expectTypeOf, it } from 'vitest';

const info = { name: 'test', version: '1.0.0' };
const url = new URL('https://shop.example.com/mcp');

it('Clients and transports of both majors fit without a cast', () => {
  expectTypeOf<ClientValise['connect']>().toBeCallableWith(new ClientV1(info), new HttpV1(url));
  expectTypeOf<ClientValise['connect']>().toBeCallableWith(new ClientV2(info), new HttpV2(url));
  expectTypeOf<ClientValise['connect']>().toBeCallableWith(new ClientV1(info), new StdioV1({ command: 'x' }));
  expectTypeOf<ClientValise['connect']>().toBeCallableWith(new ClientV2(info), new StdioV2({ command: 'x' }));
});

it('A store is a URL or an object', () => {
  expectTypeOf(openValise).toBeCallableWith();
  expectTypeOf(openValise).toBeCallableWith({ store: 'sqlite:~/.valise/state.db', principal: 'ann' });
  expectTypeOf(openValise).toBeCallableWith({
    store: memoryStore(),
    quotas: { keys: 300 },
    allowLocal: true,
  });
});

it('The jar lists synchronously and clears asynchronously', () => {
  expectTypeOf<ReturnType<ClientValise['jar']['list']>>().toEqualTypeOf<JarEntry[]>();
  expectTypeOf<ReturnType<ClientValise['jar']['clear']>>().toEqualTypeOf<Promise<number>>();
  expectTypeOf<ClientValise['jar']['clear']>().toBeCallableWith({
    server: 'a.example.com',
    scope: 'session',
    key: 'k',
  });
  // @ts-expect-error there are two scopes
  expectTypeOf<ClientValise['jar']['clear']>().toBeCallableWith({ scope: 'request' });
});
