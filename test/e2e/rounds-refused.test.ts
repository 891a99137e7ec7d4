import { generateKey } from 'mcp-valise/seal';
import { expect, it, vi } from 'vitest';
import { startHttp } from './example.ts';

const HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  'mcp-protocol-version': '2026-07-28',
  'mcp-method': 'tools/call',
  'mcp-name': 'update_work_item',
};
const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } },
};
const SECRET = 'harbour-seven';

it('[R-10] an altered flow context is refused, and the log contains neither the context nor its contents', async () => {
  const key = generateKey();
  const server = await startHttp('work-items', ['--stateless'], { VALISE_KEYS: key });
  const say = async (more: object = {}) => {
    const params = {
      name: 'update_work_item',
      arguments: { workItemId: 4522, fields: { 'System.State': 'Resolved', note: SECRET } },
      ...more,
      _meta: META,
    };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
    const text = await (await fetch(server.url, { method: 'POST', headers: HEADERS, body })).text();
    return JSON.parse(/^data: (.*)$/m.exec(text)?.[1] ?? text);
  };
  const state: string = (await say()).result.requestState;
  const altered = `${state.slice(0, -4)}AAAA`;
  const inputResponses = { resolution: { action: 'accept', content: { resolution: 'Fixed' } } };
  expect((await say({ requestState: altered, inputResponses })).error).toMatchObject({
    message: 'Invalid or expired requestState',
  });
  await vi.waitFor(() => expect(server.stderr()).toContain('the context of a round was not taken: tampered'));
  await server.stop('SIGTERM');
  // Neither a stretch of the token, nor what was said in the call, nor the key.
  const log = server.stderr();
  const token = altered.split('.').at(-1) as string;
  for (let at = 0; at + 12 <= token.length; at += 6) expect(log).not.toContain(token.slice(at, at + 12));
  for (const word of [SECRET, '4522', 'Fixed', key]) expect(log).not.toContain(word);
});
