// VALISE_STORE=redis://… VALISE_KEYS=… node cluster.ts: all processes share the keys and the store.
import cluster from 'node:cluster';
import { createServer } from 'node:http';
import { availableParallelism } from 'node:os';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler } from '@modelcontextprotocol/server';
import { build, valise } from './notes.ts';

if (cluster.isPrimary) {
  for (let count = 0; count < availableParallelism(); count++) cluster.fork();
} else {
  const http = createServer(valise.http(toNodeHandler(createMcpHandler(build))));
  http.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1');
}
