import type {
  Client as ClientV2,
  StreamableHTTPClientTransport as HttpV2,
  OAuthClientProvider as ProviderV2,
} from '@modelcontextprotocol/client';
import type { OAuthClientProvider as ProviderV1 } from '@modelcontextprotocol/sdk/client/auth.js';
import type { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import type { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  asClientStateStore,
  type ClientStateStore,
  type ClientValise,
  type Connections,
  fileStore,
  openValise,
} from 'mcp-valise/client';
import { expectTypeOf, test } from 'vitest';
import type { HttpTransport } from '../../src/client/connection/http.ts';
import type { Provider } from '../../src/client/oauth/provider.ts';

declare const valise: ClientValise;
declare const host: ClientStateStore;
declare const v1: ClientV1;
declare const v2: ClientV2;

test('Clients of both majors connect over HTTP', () => {
  expectTypeOf(valise.connect).toBeCallableWith(v1, 'https://example.com/mcp');
  expectTypeOf(valise.connect).toBeCallableWith(v2, new URL('https://example.com/mcp'));
  expectTypeOf(valise.connect).toBeCallableWith(v2, { command: 'node', args: ['server.js'] });
  void valise.connect(v2, 'https://example.com/mcp', {
    auth: { redirect: (url) => expectTypeOf(url).toEqualTypeOf<URL>() },
  });
  expectTypeOf(valise.connections).toEqualTypeOf<Connections>();
});

test('One provider serves both majors', () => {
  // What was discovered is kept as it came; its shape is each major's own affair.
  expectTypeOf<Provider>().toExtend<Omit<ProviderV1, 'discoveryState'>>();
  expectTypeOf<Provider>().toExtend<Omit<ProviderV2, 'discoveryState'>>();
});

test('The transports of both majors have the members that continuity needs', () => {
  expectTypeOf<Pick<HttpV1, 'setProtocolVersion' | 'resumeStream'>>().toExtend<
    Pick<HttpTransport, 'setProtocolVersion' | 'resumeStream'>
  >();
  expectTypeOf<Pick<HttpV2, 'setProtocolVersion' | 'resumeStream'>>().toExtend<
    Pick<HttpTransport, 'setProtocolVersion' | 'resumeStream'>
  >();
});

test('A store in the shape of the seed is accepted wherever a store is', () => {
  expectTypeOf(openValise({ store: host })).toEqualTypeOf<Promise<ClientValise>>();
  expectTypeOf(valise.connect).toBeCallableWith(v2, 'https://example.com/mcp', { store: host });
  expectTypeOf(
    asClientStateStore(fileStore('./mcp-state.json'), 'https://example.com/mcp'),
  ).toEqualTypeOf<ClientStateStore>();
});
