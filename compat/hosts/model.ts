import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

interface Item {
  readonly role?: string;
  readonly type?: string;
  readonly content?: unknown;
  readonly output?: unknown;
}

/** What the model does next: the prompt `Call NAME` calls that tool, and its output is then the model's answer. */
function decide(
  items: readonly Item[],
  tools: readonly string[],
): { readonly tool?: string; readonly say: string } {
  const asked = items.findLastIndex(({ role }) => role === 'user');
  const output = items
    .slice(asked)
    .findLast(({ role, type }) => role === 'tool' || type === 'function_call_output');
  if (output) return { say: JSON.stringify(output.output ?? output.content) };
  const [, name = ''] = /Call (\w+)/.exec(JSON.stringify(items[asked]?.content)) ?? [];
  const tool = tools.find((one) => one === name || one.endsWith(`_${name}`));
  return tool === undefined ? { say: `There is no tool ${name} among ${tools}.` } : { tool, say: '' };
}

function response({ input, tools = [], model }: Record<string, never>): object {
  const names = (tools as { type: string; name: string }[]).filter(({ type }) => type === 'function');
  const { tool, say } = decide(
    input,
    names.map(({ name }) => name),
  );
  const id = randomUUID();
  const item =
    tool === undefined
      ? {
          type: 'message',
          id: `msg_${id}`,
          role: 'assistant',
          status: 'completed',
          content: [{ type: 'output_text', text: say, annotations: [], logprobs: [] }],
        }
      : {
          type: 'function_call',
          id: `fc_${id}`,
          call_id: `call_${id}`,
          name: tool,
          arguments: '{}',
          status: 'completed',
        };
  const details = {
    input_tokens_details: { cached_tokens: 0 },
    output_tokens_details: { reasoning_tokens: 0 },
  };
  return {
    id: `resp_${id}`,
    object: 'response',
    created_at: 1,
    status: 'completed',
    model,
    error: null,
    incomplete_details: null,
    parallel_tool_calls: false,
    output: [item],
    usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2, ...details },
    tools: [],
    tool_choice: 'auto',
    metadata: {},
    temperature: 1,
    top_p: 1,
  };
}

function completion({ messages, tools = [], model }: Record<string, never>): object {
  const names = (tools as { function: { name: string } }[]).map((one) => one.function.name);
  const { tool, say } = decide(messages, names);
  const message =
    tool === undefined
      ? { role: 'assistant', content: say }
      : {
          role: 'assistant',
          content: null,
          tool_calls: [
            { id: `call_${randomUUID()}`, type: 'function', function: { name: tool, arguments: '{}' } },
          ],
        };
  return {
    id: randomUUID(),
    object: 'chat.completion',
    created: 1,
    model,
    choices: [{ index: 0, finish_reason: tool === undefined ? 'stop' : 'tool_calls', message }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  };
}

/** A scripted model behind the API that the hosts' model libraries speak. */
export async function openModel() {
  const http = createServer(async (request, reply) => {
    const body = (await json(request)) as Record<string, never>;
    const answer = request.url?.endsWith('/responses') ? response(body) : completion(body);
    reply.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  }).listen(0, '127.0.0.1');
  await once(http, 'listening');
  return {
    env: {
      OPENAI_BASE_URL: `http://127.0.0.1:${(http.address() as AddressInfo).port}/v1`,
      OPENAI_API_KEY: 'none',
    },
    close() {
      http.closeAllConnections();
      http.close();
    },
  };
}
