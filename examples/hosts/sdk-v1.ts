/** A plain client of SDK v1 (`@modelcontextprotocol/sdk`), without a model: it calls the tools that the prompt names, and passes handles on. */
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { callNamed } from './call-named.ts';
import type { Open } from './host.ts';

export const open: Open = async ({ url, valise }) => {
  const client = new Client({ name: 'app', version: '1.0.0' });
  await client.connect(valise ? valise.transport(url) : new StreamableHTTPClientTransport(new URL(url)));
  return {
    say: (prompt) => callNamed(client, prompt),
    close: () => client.close(),
  };
};
