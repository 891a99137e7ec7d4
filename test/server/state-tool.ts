import { createValise, type ServerJar, type ServerValiseOptions } from 'mcp-valise/server';
import { z } from 'zod';
import type { Meta, Result } from '../../src/wire/index.ts';
import type { Major } from './majors.ts';
import { type RawClient, rawClient } from './raw-client.ts';

export const SESSION = 'modelcontextprotocol.io/state/session';
export const SERVER = 'modelcontextprotocol.io/state/server';
export const MODERN = 'dev.valise/state';
export const ATTRIBUTES = 'dev.valise/state-attributes';

/** A client of a server with one tool, which does with the state what the test says. */
export async function tool(
  major: Major,
  work: (state: ServerJar) => unknown,
  options: Partial<ServerValiseOptions> = {},
  capabilities: object = { state: {} },
): Promise<RawClient & { readonly rejected: { what: string; reason: string }[] }> {
  const rejected: { what: string; reason: string }[] = [];
  const valise = createValise({ name: 'test', ...options });
  valise.on('rejected', (event) => rejected.push(event));
  const server = valise.install(new major.McpServer({ name: 'test', version: '1.0.0' }));
  server.registerTool('work', { inputSchema: z.object({}) }, async () => ({
    content: [{ type: 'text', text: JSON.stringify((await work(valise.jar)) ?? null) }],
  }));
  const [near, far] = major.Memory.createLinkedPair();
  await server.connect(far);
  return Object.assign(await rawClient(near, capabilities), { rejected });
}

export const metaOf = (result: Result): Meta | undefined => result._meta;
export const sessionOf = (result: Result) => metaOf(result)?.[SESSION] as Record<string, unknown> | undefined;
export const serverOf = (result: Result) => metaOf(result)?.[SERVER] as Record<string, unknown> | undefined;

export const plain = {
  jar: { session: { 'Cart Contents': { plain: true }, 'Coupon Code': { plain: true } } },
};

/** Counts in both scopes. */
export const counting = ({ session, server }: ServerJar) => {
  const [n, m] = [Number(session.get('n') ?? 0) + 1, Number(server.get('n') ?? 0) + 1];
  session.set('n', n);
  server.set('n', m);
  return [n, m];
};
