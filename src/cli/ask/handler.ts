import { loadSdk } from '../../client/major.ts';
import type { makeClient, Sdk } from '../sdk.ts';
import { type AnswerSource, answerElicitation } from './answerer.ts';

/** What a client must say it can do so that servers ask it. */
export const ELICITATION = { elicitation: { form: {} } } as const;

/** Lets a client answer what servers ask. The majors differ in how a handler is set, not in what it does. */
export async function setAnswerer(
  client: Awaited<ReturnType<typeof makeClient>>,
  sdk: Sdk,
  source: AnswerSource,
): Promise<void> {
  const asked = new Set<string>();
  if (sdk === 'v2') {
    client.setRequestHandler(
      'elicitation/create',
      async ({ params }) => (await answerElicitation(params, source, asked)) as never,
    );
    return;
  }
  const { ElicitRequestSchema } = await loadSdk(
    '@modelcontextprotocol/sdk',
    () => import('@modelcontextprotocol/sdk/types.js'),
  );
  const v1 = client as unknown as {
    setRequestHandler(schema: unknown, handler: (request: { params: unknown }) => unknown): void;
  };
  v1.setRequestHandler(ElicitRequestSchema, ({ params }) => answerElicitation(params, source, asked));
}
