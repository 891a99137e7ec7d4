import { AsyncLocalStorage } from 'node:async_hooks';
import type { McpServer } from '@modelcontextprotocol/server';
import { createValise, type ServerValise } from 'mcp-valise/server';
import { memoryStore, type Store } from 'mcp-valise/store';
import { z } from 'zod';
import type { Major } from '../server/majors.ts';

/** The same in every run, so that a token in the message of a failure can be tried again. */
export const KEYS = 'T0aGXc1lJg5o3VtW3bYpW2yZr9s0u1v2w3x4y5z6A7Q';

/** All that a handler can find, and must find at times: without that nothing would be tried. */
export const GENUINE = ['answer', 'flow', 'server state', 'session', 'session state'];

/** What the handlers of a fuzzed server saw of one message. */
export interface Sight {
  /** The user whom the message came from. */
  readonly user: string;
  handlers: number;
}

/** A server that is given hostile messages, and notices where one of them got what nobody has given out. */
export interface FuzzedServer {
  readonly valise: ServerValise;
  /** Runs what a message sets off; handlers then count as reached by it. */
  readonly sight: AsyncLocalStorage<Sight>;
  /** What was genuine and was brought back, by kind. */
  readonly genuine: Set<string>;
  /** Forgeries that were taken for genuine. */
  readonly forgeries: string[];
  build(major: Major): McpServer;
}

const question = {
  message: 'Who?',
  schema: { type: 'object', properties: { name: { type: 'string' } } },
} as const;
const loose = z.looseObject({});
const text = (said: string) => ({ content: [{ type: 'text' as const, text: said }] });

/** Everything is marked with the user that it belongs to: what a handler is given must be its own user's. */
export function fuzzedServer(mode: 'sealed' | 'stored', store: Store = memoryStore()): FuzzedServer {
  const sight = new AsyncLocalStorage<Sight>();
  const forgeries: string[] = [];
  const genuine = new Set<string>();
  const user = () => sight.getStore()?.user ?? 'nobody';
  const valise = createValise({
    name: 'fuzzed',
    keys: KEYS,
    store,
    principal: () => (user() === 'nobody' ? undefined : { subject: user() }),
    sessions: {
      mode,
      maxPerPrincipal: 1000,
      onCreate: (session) => void session.set('mark', markOf('session')),
    },
  });
  valise.on('warning', () => {});
  valise.sessions.require('gated');
  const markOf = (what: string) => `${what} of ${user()}`;
  /** What is found must be absent, or what was put there for this user. */
  const check = (what: string, found: unknown) => {
    if (found === markOf(what)) genuine.add(what);
    else if (found !== undefined) forgeries.push(`${what}: ${JSON.stringify(found)}`);
  };
  const enter = () => {
    const here = sight.getStore();
    if (here) here.handlers++;
    const session = valise.session();
    if (session && !session.implicit) check('session', session.get('mark') ?? 'nothing');
    const { session: carried, server } = valise.jar;
    for (const [scope, state] of [
      ['session', carried],
      ['server', server],
    ] as const) {
      check(`${scope} state`, state.get('mark'));
      state.set('mark', markOf(`${scope} state`));
    }
    session?.set('n', ((session.get('n') as number | undefined) ?? 0) + 1);
  };
  return {
    valise,
    sight,
    genuine,
    forgeries,
    build({ McpServer }) {
      const server = valise.install(
        new McpServer(
          { name: 'fuzzed', version: '1.0.0' },
          { capabilities: { resources: { subscribe: true }, logging: {} } },
        ),
      );
      for (const name of ['work', 'gated']) {
        server.registerTool(name, { inputSchema: loose }, async () => {
          enter();
          return text('done');
        });
      }
      server.registerTool(
        'ask',
        { inputSchema: loose },
        valise.flow<[object]>(async (_args, flow) => {
          const here = sight.getStore();
          if (here) here.handlers++;
          check('flow', await flow.once('mark', () => markOf('flow')));
          const { name } = await flow.ask('a', question);
          if (name !== undefined && typeof name !== 'string')
            forgeries.push(`answer: ${JSON.stringify(name)}`);
          genuine.add('answer');
          await flow.ask('b', question);
          return text('asked');
        }) as never,
      );
      server.registerPrompt('greet', {}, async () => {
        enter();
        return { messages: [{ role: 'user', content: { type: 'text', text: 'hello' } }] };
      });
      server.registerResource('note', 'notes://1', {}, async (uri) => {
        enter();
        return { contents: [{ uri: uri.href, text: 'a note' }] };
      });
      return server;
    },
  };
}
