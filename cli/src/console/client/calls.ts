import type { ClientValise } from 'mcp-valise/client';
import { isObject, messageOf } from 'mcp-valise/internal';
import { TIMEOUT } from '../../connection/perform.ts';
import { explain } from '../../output/exit.ts';
import { pendingIn } from '../../output/pending.ts';
import type { Feed } from '../feed.ts';
import { optionalText, type Routes, text } from '../routes.ts';
import { formOf, readForm } from './form.ts';
import type { LinkedClient, Links } from './links.ts';
import { shownRound } from './questions.ts';
import { readKept, type ServerRow, serversIn, targetFor } from './servers.ts';

/** A call that the console has made. */
interface Made {
  readonly id: number;
  readonly at: number;
  readonly server: string;
  readonly tool: string;
  readonly session: string | undefined;
  readonly arguments: unknown;
  progress?: {
    readonly done: number;
    readonly total?: number | undefined;
    readonly message?: string | undefined;
  };
  took?: number;
  outcome?: unknown;
}

/** How many calls are remembered. */
const HISTORY = 50;

/** Routes of the screen "Calls". */
export function callRoutes(valise: ClientValise, links: Links, feed: Feed, given: readonly string[]): Routes {
  const history: Made[] = [];
  let last = 0;
  const servers = async (): Promise<readonly ServerRow[]> =>
    serversIn(await readKept(valise), given, undefined);

  const run = async (
    client: LinkedClient,
    { made, args }: { readonly made: Made; readonly args: Record<string, unknown> },
  ): Promise<object> => {
    const started = performance.now();
    const call = () =>
      client.callTool(
        { name: made.tool, arguments: args },
        {
          timeout: TIMEOUT,
          onprogress: ({ progress, total, message }) => {
            made.progress = { done: progress, total, message };
            feed.changed('calls');
          },
        },
      );
    try {
      const session = made.session && (await valise.sessions(client).named(made.session));
      const { _meta, ...result } = session ? await session.run(call) : await call();
      return { result };
    } catch (error) {
      const round = await pendingIn(error, valise.pending);
      return round ? { question: shownRound(round) } : { error: explain(error) };
    } finally {
      made.took = Math.round(performance.now() - started);
      feed.changed('calls', 'questions', 'state', 'servers');
    }
  };

  return {
    'GET calls': { run: () => ({ history: [...history].reverse() }) },
    // Connecting may start a program or a sign-in.
    'POST calls/tools': {
      writes: true,
      async run(input) {
        const client = await links.to(targetFor(text(input, 'server'), await servers()));
        const { tools } = await client.listTools();
        const kept = (await valise.sessions.kept()).filter(({ target }) => target === input['server']);
        return {
          tools: tools.map(({ name, title, description, inputSchema }) => ({
            name,
            title,
            description,
            fields: formOf(inputSchema),
          })),
          sessions: kept.flatMap(({ label }) => (label === undefined ? [] : [label])),
        };
      },
    },
    'POST calls/run': {
      writes: true,
      async run(input) {
        const server = text(input, 'server');
        const tool = text(input, 'tool');
        const client = await links.to(targetFor(server, await servers()));
        const { tools } = await client.listTools();
        const filled = readForm(tools.find(({ name }) => name === tool)?.inputSchema, input['values']);
        if ('problems' in filled) return filled;
        const session = optionalText(input, 'session');
        const made: Made = { id: ++last, at: Date.now(), server, tool, session, arguments: filled.content };
        history.push(made);
        if (history.length > HISTORY) history.shift();
        feed.changed('calls');
        made.outcome = await run(client, { made, args: filled.content }).catch((error: unknown) => ({
          error: isObject(error) ? messageOf(error) : String(error),
        }));
        feed.changed('calls');
        return { id: made.id, ...(made.outcome as object) };
      },
    },
  };
}
