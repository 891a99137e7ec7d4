/** mcp-use (`mcp-use`, version 1): its client takes `fetch`. The application calls the tools here, without an agent. */
import { MCPClient } from 'mcp-use/client';
import type { Open } from './host.ts';

export const open: Open = async ({ url, valise, redirect, answer }) => {
  const client = new MCPClient(
    {
      mcpServers: {
        example: { url, ...(valise && { fetch: valise.options(url, { auth: { redirect } }).fetch }) },
      },
    },
    { onElicitation: answer },
  );
  const session = await client.createSession('example');
  return {
    async say(prompt) {
      const said: string[] = [];
      for (const name of /Call ([\w,]+)/.exec(prompt)?.[1]?.split(',') ?? []) {
        const { content } = await session.callTool(name, {});
        said.push(...content.map((block) => (block.type === 'text' ? block.text : '')));
      }
      return said.join('\n');
    },
    close: () => client.closeAllSessions(),
  };
};
