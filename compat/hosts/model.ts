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

interface Block {
  readonly type: string;
  readonly content?: unknown;
}

/** The messages API, as a stream of events. */
function* messages({ messages: all, tools = [], model }: Record<string, never>): Generator<object> {
  const items = (all as { role: string; content: string | Block[] }[]).flatMap(
    ({ role, content }): Item[] => {
      const result = Array.isArray(content) ? content.find(({ type }) => type === 'tool_result') : undefined;
      return [result ? { role: 'tool', content: result.content } : { role, content }];
    },
  );
  const { tool, say } = decide(
    items,
    (tools as { name: string }[]).map(({ name }) => name),
  );
  const usage = { input_tokens: 1, output_tokens: 1 };
  const id = randomUUID();
  yield {
    type: 'message_start',
    message: {
      id: `msg_${id}`,
      type: 'message',
      role: 'assistant',
      model,
      content: [],
      stop_reason: null,
      usage,
    },
  };
  const block =
    tool === undefined ? { type: 'text', text: '' } : { type: 'tool_use', id: `toolu_${id}`, name: tool };
  yield { type: 'content_block_start', index: 0, content_block: { ...block, ...(tool && { input: {} }) } };
  const delta =
    tool === undefined ? { type: 'text_delta', text: say } : { type: 'input_json_delta', partial_json: '{}' };
  yield { type: 'content_block_delta', index: 0, delta };
  yield { type: 'content_block_stop', index: 0 };
  yield {
    type: 'message_delta',
    delta: { stop_reason: tool === undefined ? 'end_turn' : 'tool_use' },
    usage,
  };
  yield { type: 'message_stop' };
}

/** A scripted model behind the API that the hosts' model libraries speak. */
export async function openModel() {
  const http = createServer(async (request, reply) => {
    const body = (await json(request).catch(() => ({}))) as Record<string, never>;
    if (request.url?.startsWith('/v1/messages?') || request.url === '/v1/messages') {
      reply.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const event of messages(body) as Iterable<{ type: string }>)
        reply.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
      return void reply.end();
    }
    const answer = request.url?.endsWith('/responses') ? response(body) : completion(body);
    reply.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  }).listen(0, '127.0.0.1');
  await once(http, 'listening');
  const origin = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  return {
    env: {
      OPENAI_BASE_URL: `${origin}/v1`,
      OPENAI_API_KEY: 'none',
      ANTHROPIC_BASE_URL: origin,
      ANTHROPIC_API_KEY: 'none',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      // Tools are in the request, and not looked for first.
      ENABLE_TOOL_SEARCH: 'false',
    },
    close() {
      http.closeAllConnections();
      http.close();
    },
  };
}
