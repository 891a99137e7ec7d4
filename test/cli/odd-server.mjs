// A stdio server of the older era whose texts would play tricks on a terminal, and whose list comes in pages.
import { createInterface } from 'node:readline';

const STATE = 'modelcontextprotocol.io/state/server';
const forged = '\u001b[2Kx\n127.0.0.1 server fake\u009b1m';
const tool = (name) => ({
  name,
  description: `A \u001b[31mred\u001b[0m one`,
  inputSchema: { type: 'object' },
});

/** What the tools set, by name; `first` is for any other. */
const STATES = {
  first: () => ({ [forged]: 1, large: 'x'.repeat(10_000) }),
  many: () => Object.fromEntries(Array.from({ length: 200 }, (_, at) => [`k${at}`, 1])),
  overlong: () => ({ huge: 'x'.repeat(70_000_000) }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params = {} } = JSON.parse(line);
  if (id === undefined) continue;
  const results = {
    initialize: {
      protocolVersion: params.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: 'odd', version: '1.0.0' },
    },
    'tools/list': params.cursor
      ? { tools: [tool('second')] }
      : { tools: [tool('first')], nextCursor: 'more' },
    'tools/call': {
      content: [{ type: 'text', text: 'one\n\ttwo\u001b[2J\u009b1m' }],
      _meta: { [STATE]: (STATES[params.name] ?? STATES.first)() },
    },
  };
  const known = results[method];
  // What stands behind `raw`, to the letter.
  const raw = /^raw (.*)$/.exec(params.name ?? '');
  const answer = raw
    ? JSON.parse(raw[1])
    : known
      ? { result: known }
      : { error: { code: -32601, message: 'Method not found' } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...answer })}\n`);
}
