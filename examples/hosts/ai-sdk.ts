/** AI SDK (`ai`, `@ai-sdk/mcp`): its client takes a transport. */
import { createMCPClient, ElicitationRequestSchema } from '@ai-sdk/mcp';
import { openai } from '@ai-sdk/openai';
import { generateText, type ModelMessage, stepCountIs } from 'ai';
import type { Open } from './host.ts';

export const open: Open = async ({ url, valise, redirect, answer }) => {
  const client = await createMCPClient({
    transport: valise ? valise.transport(url, { auth: { redirect } }) : { type: 'http', url },
    capabilities: { elicitation: {} },
  });
  client.onElicitationRequest(ElicitationRequestSchema, answer);
  const tools = await client.tools();
  const messages: ModelMessage[] = [];
  return {
    async say(prompt) {
      messages.push({ role: 'user', content: prompt });
      const result = await generateText({
        model: openai('gpt-5'),
        tools,
        messages,
        stopWhen: stepCountIs(5),
      });
      messages.push(...result.response.messages);
      return result.text;
    },
    close: () => client.close(),
  };
};
