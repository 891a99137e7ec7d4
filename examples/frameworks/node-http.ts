import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler } from '@modelcontextprotocol/server';
import { build, valise } from './notes.ts';

const http = createServer(valise.http(toNodeHandler(createMcpHandler(build))));
http.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1');
