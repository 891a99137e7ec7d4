import { Client } from '@modelcontextprotocol/client';
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { openValise } from 'mcp-valise/client';
import { CARRIERS, type Carrier } from 'mcp-valise/internal';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it, onTestFinished } from 'vitest';
import { makeClient } from '../../cli/src/connection/sdk.ts';
import { MAJORS } from '../server/majors.ts';

const QUESTIONS = 12;

/** A server with a tool that asks one question after another. */
function build(): McpServer {
  const served = createValise({ name: 'test' });
  const server = served.install(new McpServer({ name: 'test', version: '1.0.0' }));
  const interview = served.flow(async (flow) => {
    const names: unknown[] = [];
    for (let at = 0; at < QUESTIONS; at++) {
      const schema = { type: 'object', properties: { name: { type: 'string' } } } as const;
      names.push((await flow.ask(`name-${at}`, { message: 'Who?', schema })).name);
    }
    return { content: [{ type: 'text' as const, text: names.join() }] };
  });
  server.registerTool('interview', {}, interview);
  return server;
}

async function call(client: Client, era: 'legacy' | 'modern', carriers?: readonly Carrier[]) {
  let asked = 0;
  client.setRequestHandler('elicitation/create', async () => ({
    action: 'accept',
    content: { name: String(++asked) },
  }));
  const [near, far] = MAJORS[1].Memory.createLinkedPair();
  if (era === 'legacy') await build().connect(far);
  else serveStdio(build, { transport: far });
  const valise = await openValise({ store: memoryStore(), carriers });
  await valise.connect(client, near);
  onTestFinished(() => client.close());
  return client.callTool({ name: 'interview', arguments: {} });
}

const capabilities = { elicitation: { form: {} } };
const info = { name: 'test', version: '1.0.0' };
const answered = { content: [{ text: '1,2,3,4,5,6,7,8,9,10,11,12' }] };

describe('a call that asks more than ten questions in sequence', () => {
  it.each(CARRIERS)('A call with more than ten questions gets its result, carried by %s', async (carrier) => {
    const client = new Client(info, { capabilities });
    expect(await call(client, 'legacy', [carrier])).toMatchObject(answered);
  });

  it('A call on 2026-07-28 is answered up to the limit of the SDK, and the error says where it stopped', async () => {
    const versionNegotiation = { mode: { pin: '2026-07-28' } } as const;
    const patient = new Client(info, { capabilities, versionNegotiation, inputRequired: { maxRounds: 100 } });
    expect(await call(patient, 'modern')).toMatchObject(answered);
    const stock = new Client(info, { capabilities, versionNegotiation });
    await expect(call(stock, 'modern')).rejects.toThrow(/after 10 rounds \(inputRequired\.maxRounds\)/);
  });

  it('The command line answers a call with more than ten questions', async () => {
    const client = await makeClient({ sdk: 'v2', era: 'modern', capabilities });
    expect(await call(client, 'modern')).toMatchObject(answered);
  });
});
