/** Claude Agent SDK (`@anthropic-ai/claude-agent-sdk`): an MCP server in this process, which passes messages on. */
import { type McpServerConfig, query } from '@anthropic-ai/claude-agent-sdk';
import type { HostTransport } from 'mcp-valise/client';
import type { Open } from './host.ts';

export const open: Open = async ({ url, valise, redirect, answer }) => {
  const example: McpServerConfig = valise
    ? {
        type: 'sdk',
        name: 'example',
        instance: passingOn(() => valise.transport(url, { auth: { redirect } })),
      }
    : { type: 'http', url };
  return {
    async say(prompt) {
      const options = {
        mcpServers: { example },
        allowedTools: ['mcp__example__*'],
        tools: [],
        settingSources: [],
        onElicitation: answer,
      };
      for await (const message of query({ prompt, options })) if ('result' in message) return message.result;
      return '';
    },
    close: async () => {},
  };
};

/** Stands for a server: what the host sends goes to the transport, and what comes from there goes to the host. */
function passingOn(open: () => HostTransport): never {
  return {
    async connect(host: HostTransport) {
      const server = open();
      host.onmessage = (message) => void server.send(message).catch((error: Error) => host.onerror?.(error));
      server.onmessage = (message) => void host.send(message);
      host.onclose = () => void server.close();
      await server.start();
      await host.start();
    },
    close: async () => {},
  } as never;
}
