// A stdio server that answers each call with the texts in the call's arguments, to the letter, and everything else as it should.
import { createInterface } from 'node:readline';

const write = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params = {} } = JSON.parse(line);
  if (id === undefined || method === undefined) continue;
  const serverInfo = { name: 'hostile', version: '1.0.0' };
  const capabilities = { tools: {}, sessions: {} };
  const { texts } = params.arguments ?? {};
  if (method === 'initialize')
    write({
      jsonrpc: '2.0',
      id,
      result: { protocolVersion: params.protocolVersion, capabilities, serverInfo },
    });
  else if (method === 'tools/call' && texts)
    process.stdout.write(texts.map((text) => `${text.replaceAll('"$id"', JSON.stringify(id))}\n`).join(''));
  else if (method === 'tools/call') write({ jsonrpc: '2.0', id, result: { content: [] } });
  else write({ jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } });
}
