import { LeaveOpen, type PendingQuestion } from 'mcp-valise/client';
import { loadSdk, type Params } from 'mcp-valise/internal';
import type { makeClient, Sdk } from '../connection/sdk.ts';
import { type AnswerSource, answerElicitation, type Elicited } from './answerer.ts';

/** The capability that a client must declare so that servers ask it. */
export const ELICITATION = { elicitation: { form: {} } } as const;

/**
 * Passes params through unchanged. The SDK validates them anyway, and its own schema would drop unknown keys such as
 * `writeOnly`.
 */
const AS_SENT = {
  params: {
    '~standard': { version: 1, vendor: 'valise', validate: (value: unknown) => ({ value }) },
  },
} as const;

const left = new WeakMap<object, PendingQuestion>();

/** Returns the question that a client left open last, whether or not its server can wait. */
export function leftBy(client: object): PendingQuestion | undefined {
  return left.get(client);
}

const asking = new WeakMap<object, number>();

/** Whether a client's user is being asked something right now. */
export function isAsking(client: object): boolean {
  return (asking.get(client) ?? 0) > 0;
}

let line: Promise<unknown> = Promise.resolve();

/** Serializes questions: there is only one terminal, and servers may ask at the same time. */
function inLine<Value>(ask: () => Promise<Value>): Promise<Value> {
  const asked = line.then(ask);
  line = asked.catch(() => undefined);
  return asked;
}

/**
 * Lets a client answer server questions. Resolves to a function that lists the given answers that no server asked for. The
 * SDK majors differ only in how a handler is registered.
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
