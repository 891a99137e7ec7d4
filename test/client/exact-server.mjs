// A stdio server that sends the texts it is given, and answers each call with the line that it came on.
import { createInterface } from 'node:readline';

const [, , state] = process.argv;

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params = {} } = JSON.parse(line);
  if (id === undefined) continue;
  const print = (result) =>
    process.stdout.write(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}\n`);
  if (method === 'initialize') {
    const { protocolVersion } = params;
    print(
      JSON.stringify({
        protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: 'exact', version: '1' },
      }),
    );
  } else {
    const content = JSON.stringify([{ type: 'text', text: line }]);
    print(`{"content":${content},"_meta":{"modelcontextprotocol.io/state/server":${state}}}`);
  }
}
