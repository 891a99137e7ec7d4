import { completable, type McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { Kit } from './kit.ts';

const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=';

const text = (words: string) => ({ type: 'text' as const, text: words });
const image = { type: 'image' as const, data: PNG, mimeType: 'image/png' };
const audio = { type: 'audio' as const, data: WAV, mimeType: 'audio/wav' };
const embedded = (uri: string, mimeType: string, words: string) => ({
  type: 'resource' as const,
  resource: { uri, mimeType, text: words },
});

/** Tools that return the same every time, by the names that the suites call them by. */
const CONTENTS = {
  test_simple_text: [text('This is a simple text response for testing.')],
  test_image_content: [image],
  test_audio_content: [audio],
  test_embedded_resource: [embedded('test://embedded-resource', 'text/plain', 'An embedded resource.')],
  test_multiple_content_types: [
    text('Multiple content types test:'),
    image,
    embedded('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
  ],
  // The suite wants a stream with nothing but the answer in it.
  test_streaming_elicitation: [text('Nothing but this is on the stream.')],
};

export function addContents(server: McpServer): void {
  for (const [name, content] of Object.entries(CONTENTS)) {
    server.registerTool(name, { description: `Returns ${name}`, inputSchema: z.object({}) }, async () => ({
      content,
    }));
  }
  server.registerTool(
    'test_error_handling',
    { description: 'Fails', inputSchema: z.object({}) },
    async () => {
      throw new Error('This tool intentionally returns an error for testing');
    },
  );
}

export function addResources(server: McpServer, { ResourceTemplate, takeSubscriptions }: Kit): void {
  const plain = { mimeType: 'text/plain' };
  const page = (uri: string, words: string) => ({ contents: [{ uri, ...plain, text: words }] });
  server.registerResource('static-text', 'test://static-text', plain, async ({ href }) =>
    page(href, 'This is the content of the static text resource.'),
  );
  server.registerResource('watched-resource', 'test://watched-resource', plain, async ({ href }) =>
    page(href, 'Watched.'),
  );
  server.registerResource(
    'static-binary',
    'test://static-binary',
    { mimeType: 'image/png' },
    async ({ href }) => ({
      contents: [{ uri: href, mimeType: 'image/png', blob: PNG }],
    }),
  );
  server.registerResource(
    'template',
    new ResourceTemplate('test://template/{id}/data', { list: undefined }),
    { mimeType: 'application/json' },
    async ({ href }, { id }) =>
      page(href, JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` })),
  );
  takeSubscriptions(server);
}

export function addPrompts(server: McpServer, { args }: Kit): void {
  const user = <Content>(content: Content) => ({ role: 'user' as const, content });
  server.registerPrompt('test_simple_prompt', { description: 'Simple' }, async () => ({
    messages: [user(text('This is a simple prompt for testing.'))],
  }));
  server.registerPrompt(
    'test_prompt_with_arguments',
    {
      description: 'With arguments',
      argsSchema: args({
        arg1: completable(z.string(), (typed) =>
          ['paris', 'park', 'party'].filter((each) => each.startsWith(typed)),
        ),
        arg2: z.string(),
      }),
    },
    async ({ arg1, arg2 }) => ({
      messages: [user(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))],
    }),
  );
  server.registerPrompt(
    'test_prompt_with_embedded_resource',
    { description: 'With a resource', argsSchema: args({ resourceUri: z.string() }) },
    async ({ resourceUri }) => ({
      messages: [
        user(embedded(resourceUri, 'text/plain', 'Embedded resource content for testing.')),
        user(text('Please process the embedded resource above.')),
      ],
    }),
  );
  server.registerPrompt('test_prompt_with_image', { description: 'With an image' }, async () => ({
    messages: [user(image), user(text('Please analyze the image above.'))],
  }));
}
