/** Mastra (`@mastra/mcp`): its server definition takes `fetch`. */
import { openai } from '@ai-sdk/openai';
import { Agent } from '@mastra/core/agent';
import { MCPClient } from '@mastra/mcp';
import type { Open } from './host.ts';

export const open: Open = async ({ url, valise, redirect, answer }) => {
  const mcp = new MCPClient({
    id: crypto.randomUUID(),
    servers: {
      example: {
        url: new URL(url),
        inputRequests: answer,
        ...(valise && { fetch: valise.options(url, { auth: { redirect } }).fetch }),
      },
    },
  });
  const tools = await mcp.listTools();
  const agent = new Agent({ id: 'a', name: 'a', instructions: 'Help.', model: openai('gpt-5'), tools });
  return {
    say: async (prompt) => (await agent.generate(prompt, { maxSteps: 5 })).text,
    close: () => mcp.disconnect(),
  };
};
