// app/mcp/route.ts
import { createMcpHandler } from 'mcp-handler';
import { addTools, valise } from './notes.ts';

const handler = valise.http(
  createMcpHandler((server) => {
    addTools(valise.install(server));
  }),
);

export { handler as DELETE, handler as GET, handler as POST };
