import { LeaveOpen, type PendingQuestion } from 'mcp-valise/client';
import { loadSdk } from 'mcp-valise/internal';
import type { Params } from 'mcp-valise/wire';
import type { makeClient, Sdk } from '../sdk.ts';
import { type AnswerSource, answerElicitation, type Elicited } from './answerer.ts';

/** What a client must say it can do so that servers ask it. */
export const ELICITATION = { elicitation: { form: {} } } as const;

/** The SDK checks the params in any case; its own schema would drop what it does not know, such as `writeOnly`. */
const AS_SENT = {
  params: {
    '~standard': { version: 1, vendor: 'valise', validate: (value: unknown) => ({ value }) },
  },
} as const;

const left = new WeakMap<object, PendingQuestion>();

/** The question that a client has last left open, whether its server can wait or not. */
export function leftBy(client: object): PendingQuestion | undefined {
  return left.get(client);
}

const asking = new WeakMap<object, number>();

/** True while a client's user is asked something. */
export function isAsking(client: object): boolean {
  return (asking.get(client) ?? 0) > 0;
}

let line: Promise<unknown> = Promise.resolve();

/** There is one terminal: what servers ask at once is asked one after another. */
function inLine<Value>(ask: () => Promise<Value>): Promise<Value> {
  const asked = line.then(ask);
  line = asked.catch(() => undefined);
  return asked;
}

/**
 * Lets a client answer what servers ask; resolves to what tells which given answers nobody has asked for. The majors differ in
 * how a handler is set, not in what it does.
 */
export async function setAnswerer(
  client: Awaited<ReturnType<typeof makeClient>>,
  sdk: Sdk,
  source: AnswerSource,
): Promise<() => readonly string[]> {
  const asked = new Set<string>();
  const unasked = (): readonly string[] => [...source.given.keys()].filter((name) => !asked.has(name));
  const answer = async (params: unknown): Promise<Elicited> => {
    asking.set(client, (asking.get(client) ?? 0) + 1);
    try {
      return await inLine(() => answerElicitation(params, source, asked));
    } catch (error) {
      if (error instanceof LeaveOpen)
        left.set(client, { key: '', method: 'elicitation/create', params: params as Params });
      throw error;
    } finally {
      asking.set(client, (asking.get(client) ?? 0) - 1);
    }
  };
  if (sdk === 'v2') {
    client.setRequestHandler(
      'elicitation/create',
      AS_SENT,
      async (params) => (await answer(params)) as never,
    );
    return unasked;
  }
  const { ElicitRequestSchema } = await loadSdk(
    '@modelcontextprotocol/sdk',
    () => import('@modelcontextprotocol/sdk/types.js'),
  );
  const v1 = client as unknown as {
    setRequestHandler(schema: unknown, handler: (request: { params: unknown }) => unknown): void;
  };
  const asSent = ElicitRequestSchema.pick({ method: true }).loose();
  v1.setRequestHandler(asSent, ({ params }) => answer(params));
  return unasked;
}
