import {
  CLIENT_CAPABILITIES_META_KEY,
  createRequestStateCodec,
  type InputRequests,
  inputRequired,
  type McpServer,
  type ServerContext,
} from '@modelcontextprotocol/server';
import type { Flow, ServerValise } from 'mcp-valise/server';
import { z } from 'zod';

type Question =
  | {
      readonly kind: 'elicitation';
      readonly message: string;
      readonly field: string;
      readonly type: 'string' | 'boolean';
    }
  | { readonly kind: 'sampling'; readonly prompt: string }
  | { readonly kind: 'roots' };
/** What is asked together. */
type Step = Readonly<Record<string, Question>>;

const form = (message: string, field: string, type: 'string' | 'boolean' = 'string'): Question => ({
  kind: 'elicitation',
  message,
  field,
  type,
});
const model = (prompt: string): Question => ({ kind: 'sampling', prompt });
const roots: Question = { kind: 'roots' };
const name = form('What is your name?', 'name');
const confirm = form('Please confirm', 'ok', 'boolean');

const ROUNDS = 'test_input_required_result_';
const CAPABILITIES = `${ROUNDS}capabilities`;

/** What the suite wants to be asked in the way of 2026-07-28, step by step. */
const STEPS: Readonly<Record<string, readonly Step[]>> = {
  [`${ROUNDS}elicitation`]: [{ user_name: name }],
  [`${ROUNDS}sampling`]: [{ capital_question: model('What is the capital of France?') }],
  [`${ROUNDS}list_roots`]: [{ client_roots: roots }],
  [`${ROUNDS}request_state`]: [{ confirm }],
  [`${ROUNDS}tampered_state`]: [{ confirm }],
  [`${ROUNDS}multiple_inputs`]: [
    { user_name: name, greeting: model('Generate a greeting'), client_roots: roots },
  ],
  [`${ROUNDS}multi_round`]: [
    { step1: form('Step 1: What is your name?', 'name') },
    { step2: form('Step 2: What is your favorite color?', 'color') },
  ],
  [CAPABILITIES]: [{ user_name: name, greeting: model('Generate a greeting') }],
  test_missing_capability: [{ llm_answer: model('Say pong') }],
};
const PROMPT_STEPS: readonly Step[] = [
  { user_context: form('What context should the prompt use?', 'context') },
];

const codec = createRequestStateCodec<{ readonly step: number }>({
  key: crypto.getRandomValues(new Uint8Array(32)),
});

/** For the options of the server: contexts that the SDK did not sign are refused before any handler. */
export const verifyState = codec.verify;

/** The rounds by the SDK's own means. */
export const bySdk = {
  handler: (tool: string, steps: readonly Step[], done: () => object) => async (context: ServerContext) => {
    const given = context.mcpReq.inputResponses ?? {};
    const answered = (step: Step | undefined) =>
      step !== undefined && Object.keys(step).every((key) => typeof given[key] === 'object');
    const at = context.mcpReq.requestState<{ readonly step: number }>()?.step ?? 0;
    const next = answered(steps[at]) ? at + 1 : at;
    const step = steps[next];
    if (!step) return done();
    const envelope = context.mcpReq.envelope as { readonly [key: string]: unknown } | undefined;
    const declared = envelope?.[CLIENT_CAPABILITIES_META_KEY] as
      | { readonly [kind: string]: unknown }
      | undefined;
    const inputRequests = Object.fromEntries(
      Object.entries(step)
        .filter(([, { kind }]) => tool !== CAPABILITIES || declared?.[kind] !== undefined)
        .map(([key, question]) => [key, requestOf(question)]),
    ) as InputRequests;
    return inputRequired({ inputRequests, requestState: await codec.mint({ step: next }) });
  },
};

function requestOf(question: Question) {
  switch (question.kind) {
    case 'elicitation':
      return inputRequired.elicit({
        message: question.message,
        requestedSchema: schemaOf(question) as never,
      });
    case 'sampling':
      return inputRequired.createMessage(messageOf(question.prompt));
    case 'roots':
      return inputRequired.listRoots();
  }
}

/** The same rounds by `valise.flow`. */
export function byFlow(valise: Pick<ServerValise, 'flow'>) {
  const ask = (flow: Flow, key: string, question: Question): Promise<unknown> => {
    switch (question.kind) {
      case 'elicitation':
        return flow.ask(key, { message: question.message, schema: schemaOf(question) });
      case 'sampling':
        return flow.sample(key, messageOf(question.prompt));
      case 'roots':
        return flow.roots(key);
    }
  };
  return {
    handler: (tool: string, steps: readonly Step[], done: () => object) =>
      valise.flow(async (flow: Flow) => {
        for (const step of steps) {
          const asked = Object.entries(step).map(([key, question]) => ask(flow, key, question));
          // A client that cannot be asked one thing may still be asked the other.
          await (tool === CAPABILITIES ? Promise.any(asked) : Promise.all(asked));
        }
        return done();
      }) as (context: ServerContext) => Promise<object>,
  };
}

/** Tools and a prompt that ask by answering with a question. */
export function addRounds(server: McpServer, { handler }: typeof bySdk | ReturnType<typeof byFlow>): void {
  for (const [tool, steps] of Object.entries(STEPS)) {
    const run = handler(tool, steps, () => ({ content: [{ type: 'text', text: 'state-ok' }] }));
    server.registerTool(
      tool,
      { description: 'Asks in rounds', inputSchema: z.object({}) },
      (_args, context) => run(context) as never,
    );
  }
  const run = handler('', PROMPT_STEPS, () => ({
    messages: [{ role: 'user', content: { type: 'text', text: 'With the context that was given' } }],
  }));
  server.registerPrompt(`${ROUNDS}prompt`, { description: 'Asks in rounds' }, ((context: ServerContext) =>
    run(context)) as never);
}

const schemaOf = ({ field, type }: { readonly field: string; readonly type: 'string' | 'boolean' }) => ({
  type: 'object' as const,
  properties: { [field]: { type } },
  required: [field],
});

const messageOf = (prompt: string) => ({
  messages: [{ role: 'user' as const, content: { type: 'text' as const, text: prompt } }],
  maxTokens: 100,
});
