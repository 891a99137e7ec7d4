/** A plain client of SDK v2 (`@modelcontextprotocol/client`), without a model: it calls the tools that the prompt names, and passes handles on. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { callNamed } from './call-named.ts';
import type { Open } from './host.ts';

export const open: Open = async ({ url, valise }) => {
  const client = new Client({ name: 'app', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });
  await client.connect(valise ? valise.transport(url) : new StreamableHTTPClientTransport(new URL(url)));
  return {
    say: (prompt) => callNamed(client, prompt),
    close: () => client.close(),
  };
};
