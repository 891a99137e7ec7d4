/** OpenAI Agents (`@openai/agents`): its MCP server takes `fetch`. It cannot ask the user. */
import { Agent, MCPServerStreamableHttp, MemorySession, Runner, setTracingDisabled } from '@openai/agents';
import type { Open } from './host.ts';

setTracingDisabled(true);

export const open: Open = async ({ url, valise, redirect }) => {
  const server = new MCPServerStreamableHttp({
    url,
    name: 'example',
    ...valise?.options(url, { auth: { redirect } }),
  });
  await server.connect();
  const agent = new Agent({ name: 'assistant', model: 'gpt-5', mcpServers: [server] });
  const session = new MemorySession();
  const runner = new Runner();
  return {
    async say(prompt) {
      const { finalOutput } = await runner.run(agent, prompt, { session });
      return String(finalOutput);
    },
    close: () => server.close(),
  };
};
