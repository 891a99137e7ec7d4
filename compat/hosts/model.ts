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

/** A tool as the model sees it. */
interface Tool {
  readonly name: string;
  readonly parameters?: { readonly properties?: object } | undefined;
}

interface Decision {
  readonly tool?: string;
  readonly args: string;
  readonly say: string;
}

/**
 * What the model does next: the prompt `Call ONE,TWO` calls these tools one after the other, and their outputs are then the
 * model's answer. It passes the latest state handle that it has seen to tools that take one.
 */
function decide(items: readonly Item[], tools: readonly Tool[]): Decision {
  const asked = items.findLastIndex(({ role }) => role === 'user');
  const outputs = items
    .slice(asked)
    .filter(({ role, type }) => role === 'tool' || type === 'function_call_output')
    .map(({ output, content }) => JSON.stringify(output ?? content));
  const prompt = JSON.stringify(items[asked]?.content);
  const [, plan = ''] = /Call ([\w,]+)/.exec(prompt) ?? [];
  const name = plan.split(',')[outputs.length];
  if (name === undefined) return { args: '{}', say: outputs.join('\n') };
  const tool = tools.find((one) => one.name === name || one.name.endsWith(`_${name}`));
  const names = tools.map((one) => one.name);
  if (!tool) return { args: '{}', say: `There is no tool ${name} among ${names}.` };
  const takes = 'state_handle' in (tool.parameters?.properties ?? {});
  const handle = takes
    ? [prompt, ...outputs]
        .join()
        .match(/vh1_[\w-]{22}/g)
        ?.at(-1)
    : undefined;
  return { tool: tool.name, args: JSON.stringify(handle ? { state_handle: handle } : {}), say: '' };
}

function response({ input, tools = [], model }: Record<string, never>): object {
  const functions = (tools as (Tool & { type: string })[]).filter(({ type }) => type === 'function');
  const { tool, args, say } = decide(input, functions);
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
          arguments: args,
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
  const functions = (tools as { function: Tool }[]).map((one) => one.function);
  const { tool, args, say } = decide(messages, functions);
  const message =
    tool === undefined
      ? { role: 'assistant', content: say }
      : {
          role: 'assistant',
          content: null,
          tool_calls: [
            { id: `call_${randomUUID()}`, type: 'function', function: { name: tool, arguments: args } },
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
      const results = Array.isArray(content) ? content.filter(({ type }) => type === 'tool_result') : [];
      return results.length > 0
        ? results.map((result) => ({ role: 'tool', content: result.content }))
        : [{ role, content }];
    },
  );
  const listed = tools as { name: string; input_schema?: Tool['parameters'] }[];
  const { tool, args, say } = decide(
    items,
    listed.map(({ name, input_schema }) => ({ name, parameters: input_schema })),
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
    tool === undefined ? { type: 'text_delta', text: say } : { type: 'input_json_delta', partial_json: args };
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
