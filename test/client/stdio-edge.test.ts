import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';

/** A state that changes where somebody parses it and prints it again. */
const STATE = '{"b":1.0,"a":9007199254740993,"text":"\\u00e9"}';

/** A server in bare lines: it asks with a top-level `state`, and answers its call with the line that came back. */
const SERVER = `
const say = (text) => process.stdout.write(text + '\\n');
let call;
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === 'initialize') {
    const result = { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'raw', version: '1' } };
    say(JSON.stringify({ jsonrpc: '2.0', id, result }));
  } else if (method === 'server/discover') {
    say(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } }));
  } else if (method === 'tools/call') {
    call = id;
    // In one write, after a line that is no JSON: the question must be found all the same.
    say('starting…\\n{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{}}},"state":' + process.argv[1] + '}');
  } else if (id === 'q') {
    say(JSON.stringify({ jsonrpc: '2.0', id: call, result: { content: [{ type: 'text', text: line }] } }));
  }
});`;

const CLIENTS = [
  ['v1', ClientV1 as unknown as typeof ClientV2, StdioV1 as unknown as typeof StdioV2],
  ['v2', ClientV2, StdioV2],
] as const;

describe.each(CLIENTS)('the stdio transport of SDK %s', (major, Client, Stdio) => {
  it('[R-02] [R-03] The transport delivers a question with a top-level state and returns the state exactly', async () => {
    const valise = await openValise({ store: memoryStore() });
    const client = new Client({ name: 'me', version: '1' }, { capabilities: { elicitation: { form: {} } } });
    const answer = async () => ({ action: 'accept' as const, content: {} });
    if (major === 'v2') client.setRequestHandler('elicitation/create', answer);
    else {
      const { ElicitRequestSchema } = await import('@modelcontextprotocol/sdk/types.js');
      client.setRequestHandler(ElicitRequestSchema as never, answer as never);
    }
    const transport = new Stdio({ command: process.execPath, args: ['-e', SERVER, STATE] });
    await valise.connect(client, transport);
    const { content } = await client.callTool({ name: 'ask' });
    const [{ text: line }] = content as unknown as [{ text: string }];
    expect(line).toContain(`"state":${STATE}`);
    expect(JSON.parse(line)).toMatchObject({ id: 'q', result: { action: 'accept' } });
    await client.close();
    await valise.close();
  });

  it('Calls fail at once if the server sends a line beyond maxMessageBytes', async () => {
    const valise = await openValise({ store: memoryStore(), maxMessageBytes: 100_000 });
    const cut: unknown[] = [];
    valise.on('message-too-large', (event) => cut.push(event));
    const client = new Client({ name: 'me', version: '1' });
    const endless = SERVER.replace(
      'call = id;',
      "for (let n = 0; n < 40; n++) process.stdout.write('x'.repeat(10_000)); return;",
    );
    await valise.connect(client, new Stdio({ command: process.execPath, args: ['-e', endless, STATE] }));
    await expect(client.callTool({ name: 'ask' })).rejects.toThrow(/closed/i);
    expect(cut).toHaveLength(1);
    await valise.close();
  });
});
