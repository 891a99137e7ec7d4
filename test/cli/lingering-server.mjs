// A stdio server that is hard to get rid of. `deaf`: it stays when its input ends, `mute`: it answers nothing. It says its
// pid once it is asked what it does not answer; `first`: when it starts.
import { closeSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [deaf, mute] = ['deaf', 'mute'].map((how) => process.argv.includes(how));
if (process.argv.includes('first')) console.error(process.pid);
if (deaf) setInterval(() => {}, 1000);

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params = {} } = JSON.parse(line);
  if (id === undefined) continue;
  const answer = (rest) => console.log(JSON.stringify({ jsonrpc: '2.0', id, ...rest }));
  const serverInfo = { name: 'lingering', version: '1.0.0' };
  if (mute || method === 'tools/list' || params.name === 'wait') console.error(process.pid);
  else if (params.name === 'close') closeSync(1);
  else if (method === 'initialize')
    answer({ result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo } });
  else answer({ error: { code: -32_601, message: 'Method not found' } });
}
