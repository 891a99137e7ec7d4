import { Client } from '@modelcontextprotocol/client';
import { openValise, SessionConflictError } from 'mcp-valise/client';
import { createValise, type EndedSession } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { MAJORS, type Major } from '../server/majors.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** Both ends in this process, with what a test needs of the server. */
async function bothEnds(
  { McpServer, Memory }: Major,
  options: Parameters<typeof createValise>[0],
  register: (server: InstanceType<typeof McpServer>, valise: ReturnType<typeof createValise>) => void,
) {
  const served = createValise(options);
  const server = served.install(new McpServer({ name: 'test', version: '1.0.0' }));
  register(server, served);
  const [near, far] = Memory.createLinkedPair();
  await server.connect(far);
  const valise = await openValise({ store: memoryStore(), allowLocal: true });
  const client = new Client({ name: 'test', version: '1.0.0' });
  await valise.connect(client, near);
  closing.push(
    () => served.close(),
    () => valise.close(),
    () => client.close(),
  );
  return { valise, client, served };
}

describe.each(MAJORS)('both ends of a session, with an SDK $major server', (major) => {
  it('[S-23] Resources that a tool allocated are freed when the client closes', async () => {
    const ended: EndedSession[] = [];
    const { valise, client } = await bothEnds(
      major,
      { name: 'test', sessions: { onEnd: (session) => void ended.push(session) } },
      (server) => {
        const annotations = { resourceAllocation: true } as object;
        server.registerTool('open_browser', { annotations }, async () => ({ content: [] }));
        server.registerTool('echo', {}, async () => ({ content: [] }));
      },
    );
    const [costly, cheap] = [await valise.sessions(client).create(), await valise.sessions(client).create()];
    await client.listTools();
    await costly.run(() => client.callTool({ name: 'open_browser' }));
    await cheap.run(() => client.callTool({ name: 'echo' }));
    await client.close();
    expect(ended).toMatchObject([{ id: costly.id, reason: 'deleted' }]);
  });

  it('[S-21] A conflict is a typed error if the author lets the call fail', async () => {
    const { valise, client } = await bothEnds(
      major,
      { name: 'test', store: memoryStore(), sessions: { mode: 'stored', onConflict: 'fail' } },
      (server, served) =>
        server.registerTool('count', {}, async () => {
          const session = served.session();
          const n = session?.get<number>('n') ?? 0;
          await new Promise((resolve) => setImmediate(resolve));
          session?.set('n', n + 1);
          return { content: [] };
        }),
    );
    const session = await valise.sessions(client).create();
    const call = () => session.run(() => client.callTool({ name: 'count' }));
    const outcomes = await Promise.allSettled([call(), call(), call(), call()]);
    const failed = outcomes.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
    expect(failed.length).toBeGreaterThan(0);
    for (const error of failed) expect(error).toBeInstanceOf(SessionConflictError);
    expect(session.isGone).toBe(false);
  });

  it('[S-21] Serial calls cause no conflict', async () => {
    const { valise, client } = await bothEnds(
      major,
      { name: 'test', sessions: { mode: 'sealed' } },
      (server, served) =>
        server.registerTool('count', {}, async () => {
          const session = served.session();
          const n = (session?.get<number>('n') ?? 0) + 1;
          await new Promise((resolve) => setImmediate(resolve));
          session?.set('n', n);
          return { content: [{ type: 'text', text: String(n) }] };
        }),
    );
    const session = await valise.sessions(client).create({ ordering: 'serial' });
    const results = await session.run(() =>
      Promise.all(Array.from({ length: 6 }, () => client.callTool({ name: 'count' }))),
    );
    expect(results.map(({ content }) => (content as { text: string }[])[0]?.text)).toEqual([
      '1',
      '2',
      '3',
      '4',
      '5',
      '6',
    ]);
  });
});
