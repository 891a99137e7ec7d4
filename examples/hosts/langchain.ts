/** LangChain (`@langchain/mcp-adapters`): `loadMcpTools` takes a client of SDK v1, on any transport. */
import { createReactAgent } from '@langchain/langgraph/prebuilt';
import { loadMcpTools, MultiServerMCPClient } from '@langchain/mcp-adapters';
import { ChatOpenAI } from '@langchain/openai';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import type { ClientValise } from 'mcp-valise/client';
import type { Open, Setting } from './host.ts';

export const open: Open = async (setting) => {
  const { tools, close } = setting.valise ? await through(setting.valise, setting) : await stock(setting.url);
  const agent = createReactAgent({ llm: new ChatOpenAI({ model: 'gpt-5' }), tools });
  return {
    async say(prompt) {
      const { messages } = await agent.invoke({ messages: [{ role: 'user', content: prompt }] });
      return String(messages.at(-1)?.content);
    },
    close,
  };
};

async function through(valise: ClientValise, { url, redirect, answer }: Setting) {
  const client = new Client({ name: 'langchain', version: '1.0.0' }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, answer);
  await client.connect(valise.transport(url, { auth: { redirect } }));
  return { tools: await loadMcpTools('example', client), close: () => client.close() };
}

async function stock(url: string) {
  const client = new MultiServerMCPClient({ mcpServers: { example: { url, transport: 'http' } } });
  return { tools: await client.getTools(), close: () => client.close() };
}
