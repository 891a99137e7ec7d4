// A stdio server of the older era whose texts would play tricks on a terminal, and whose list comes in pages.
import { createInterface } from 'node:readline';

const STATE = 'modelcontextprotocol.io/state/server';
/** Controls (C0, C1), direction, zero width, separators, half a character, tags. */
const HOSTILE =
  'a\u001b]0;owned\u0007\u009b1m\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061cb' +
  '\u200b\u200c\u200d\u2060\ufeff\u00ad\u2028\u2029\ud800c\u{e0041}\r\u0000d';
const forged = '\u001b[2Kx\n127.0.0.1 server fake\u009b1m';
const tool = (name) => ({
  name,
  description: `A \u001b[31mred\u001b[0m one ${HOSTILE}`,
  inputSchema: { type: 'object' },
});

/** What the tools set, by name; `first` is for any other. */
const STATES = {
  first: () => ({ [forged]: 1, large: 'x'.repeat(10_000) }),
  many: () => Object.fromEntries(Array.from({ length: 200 }, (_, at) => [`k${at}`, 1])),
  hostility: () => ({ [HOSTILE]: HOSTILE }),
  overlong: () => ({ huge: 'x'.repeat(70_000_000) }),
};

/** What a tool asks, by its name. */
const QUESTIONS = {
  ask: () => ({
    message: HOSTILE,
    requestedSchema: {
      type: 'object',
      properties: {
        [`name${HOSTILE}`]: { type: 'string', title: HOSTILE, description: HOSTILE, default: HOSTILE },
        choice: { type: 'string', enum: [`x${HOSTILE}`], enumNames: [HOSTILE], default: `x${HOSTILE}` },
      },
    },
  }),
};
let asking;

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params = {}, result: answered } = JSON.parse(line);
  if (id === undefined) continue;
  const write = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  if (method === undefined) {
    const text = answered?.action ?? 'not answered';
    write({ id: asking, result: { content: [{ type: 'text', text }], isError: answered === undefined } });
    continue;
  }
  const question = method === 'tools/call' && QUESTIONS[params.name]?.();
  if (question) {
    asking = id;
    write({ id: 'question', method: 'elicitation/create', params: question });
    continue;
  }
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
  // Words behind the name of this script: what `initialize` fails with, and how long errors are.
  const [refusal] = process.argv.slice(2);
  const errors = {
    hostile: { code: -32000, message: HOSTILE, data: { [HOSTILE]: HOSTILE } },
    long: { code: -32000, message: `a.${'a-'.repeat(200_000)}` },
  };
  const error = method === 'initialize' ? errors[refusal] : errors[params.name];
  const answer = raw
    ? JSON.parse(raw[1])
    : error
      ? { error }
      : known
        ? { result: known }
        : { error: { code: -32601, message: 'Method not found' } };
  write({ id, ...answer });
}
