// Cloudflare Workers, with the compatibility flag nodejs_compat, and VALISE_KEYS as a secret.
import { createMcpHandler } from '@modelcontextprotocol/server';
import { build, valise } from './notes.ts';

export default valise.http(createMcpHandler(build));
