import { createValise } from 'mcp-valise/server';
import { afterEach, describe, expect, it } from 'vitest';
import { call, endServers, FORMS, initialize, listen, post } from './http-stage.ts';

const KEY = 'io.modelcontextprotocol/session';

afterEach(endServers);

describe.each(Object.entries(FORMS))(
  'the header of a session if the transport has its own sessions (%s)',
  (_, form) => {
    it('[S-20] Valise-Session-Id must name the session of the message, and Mcp-Session-Id names the transport’s own session', async () => {
      const url = await listen(form(createValise({ name: 'test', sessions: { mode: 'sealed' } })));
      const { headers } = await post(url, initialize({ experimental: { sessions: {} } }));
      const transport = { 'mcp-session-id': headers.get('mcp-session-id') as string };
      const created = await post(url, { jsonrpc: '2.0', id: 1, method: 'sessions/create' }, transport);
      const { sessionId, state } = created.message.result.session as { sessionId: string; state: string };
      const count = call('count');
      const message = { ...count, params: { ...count.params, _meta: { [KEY]: { sessionId, state } } } };
      const agreed = await post(url, message, { ...transport, 'valise-session-id': sessionId });
      expect(agreed.message.result).toMatchObject({
        content: [{ text: '1' }],
        _meta: { [KEY]: { sessionId, state: expect.any(String) } },
      });
      const other = await post(url, message, { ...transport, 'valise-session-id': 'sess-other' });
      expect(other.message.error).toMatchObject({ code: -32602 });
      const neither = await post(url, message, transport);
      expect(neither.message.result).toMatchObject({ content: [{ text: '1' }] });
    });
  },
);

const MODERN = Object.entries(FORMS).filter(([name]) => name.startsWith('v2'));

describe.each(MODERN)('the header of a session on 2026-07-28 (%s)', (_, form) => {
  it('[S-20] [S-24] the header of a session is Mcp-Session-Id on 2026-07-28 for a client that uses the draft names', async () => {
    const url = await listen(form(createValise({ name: 'test', sessions: { mode: 'sealed' } })));
    const send = (
      method: string,
      params: { name?: string; _meta?: object },
      more: Record<string, string> = {},
    ) =>
      post(
        url,
        {
          jsonrpc: '2.0',
          id: 1,
          method,
          params: {
            ...params,
            _meta: {
              'io.modelcontextprotocol/protocolVersion': '2026-07-28',
              'io.modelcontextprotocol/clientCapabilities': {},
              'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
              ...params._meta,
            },
          },
        },
        {
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': method,
          ...(params.name && { 'mcp-name': params.name }),
          ...more,
        },
      );
    const created = await send('sessions/create', {});
    const { sessionId, state } = created.message.result.session as { sessionId: string; state: string };
    const params = { name: 'count', arguments: {}, _meta: { [KEY]: { sessionId, state } } };
    const agreed = await send('tools/call', params, { 'mcp-session-id': sessionId });
    expect(agreed.message.result).toMatchObject({
      content: [{ text: '1' }],
      _meta: { [KEY]: { sessionId, state: expect.any(String) } },
    });
    const other = await send('tools/call', params, { 'mcp-session-id': 'sess-other' });
    expect(other.message.error).toMatchObject({ code: -32602 });
  });
});
