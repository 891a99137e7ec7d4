/**
 * A notebook for each session. Two of its tools work with and without one; two need one.
 *
 *     valise example notebook --stdio
 *     valise example notebook --http 3000 --mode stored --store redis://127.0.0.1:6379
 */
import { createValise, sessionRequired } from 'mcp-valise/server';
import { z } from 'zod';
import { type Example, serveIfMain } from './serve.ts';

const CODE = [
  'math.py:12: def fizz_buzz():',
  'kata.py:3: def fizz_buzz(): # the short one',
  'test_kata.py:8: assert "def fizz_buzz():" in source',
  'math.py:40: def is_prime(n):',
];

export const example: Example = {
  name: 'notebook',
  options: { mode: { type: 'string', default: 'sealed' }, ttl: { type: 'string', default: '4h' } },
  build({ McpServer, options, flags }) {
    const valise = createValise({
      name: 'notebook',
      ...options,
      sessions: {
        // Sealed: the notes travel with the client. Stored: they are in the store, and no two calls overwrite each other.
        mode: flags['mode'] as 'sealed' | 'stored',
        ttl: flags['ttl'] as string,
      },
    });
    valise.sessions.require('notebook_append');

    const server = () => {
      const notebook = valise.install(new McpServer({ name: 'notebook', version: '1.0.0' }));

      notebook.registerTool(
        'echo',
        { description: 'Says it again.', inputSchema: z.object({ msg: z.string() }) },
        async ({ msg }) => {
          valise.session()?.namespace('echo').set('last', msg);
          return { content: [text(msg)] };
        },
      );

      notebook.registerTool(
        'search_code',
        { description: 'Searches the code.', inputSchema: z.object({ query: z.string() }) },
        async ({ query }) => {
          const found = CODE.filter((line) => line.includes(query));
          // Another module's corner of the session: it neither knows nor disturbs the notes.
          valise.session()?.namespace('search').set('last', query);
          return {
            content: [text(`Found ${found.length} ${found.length === 1 ? 'match' : 'matches'}.`)],
            structuredContent: { found },
          };
        },
      );

      notebook.registerTool(
        'notebook_append',
        { description: 'Takes a note.', inputSchema: z.object({ text: z.string() }) },
        async ({ text: note }) => {
          const session = valise.session();
          const notes = [...(session?.get<string[]>('notes') ?? []), note];
          session?.set('notes', notes);
          return {
            content: [text(`Note ${notes.length} taken.`)],
            structuredContent: { count: notes.length },
          };
        },
      );

      notebook.registerTool(
        'notebook_read',
        {
          description: 'Reads the notes of this session.',
          inputSchema: z.object({}),
          // The same as requireSession, said where the tool is; clients see it in the list.
          _meta: { ...sessionRequired },
        },
        async () => {
          const notes = valise.session()?.get<string[]>('notes') ?? [];
          return {
            content: [text(notes.length > 0 ? notes.join('\n') : 'The notebook is empty.')],
            structuredContent: { notes },
          };
        },
      );

      return notebook;
    };

    return { valise, server };
  },
};

const text = (words: string) => ({ type: 'text' as const, text: words });

await serveIfMain(import.meta.url, example);
