import { createValise } from 'mcp-valise/server';
import { describe, expect, it } from 'vitest';
import { setHandler } from './majors.ts';
import { resultOf } from './raw-client.ts';
import { ALL_STAGES, attach, errorOf, keys } from './sessions-tool.ts';

describe.each(ALL_STAGES)('lists by session, on $stage', (at) => {
  /** A server that lists more once a session has unlocked it, and a client of it. */
  const open = async () => {
    const valise = createValise({ name: 'test', keys, sessions: {} });
    const build = () => {
      const server = valise.install(
        new at.major.McpServer(
          { name: 'test', version: '1.0.0' },
          { capabilities: { tools: {}, prompts: {}, resources: {} } },
        ),
      );
      server.registerTool('unlock', {}, async () => {
        valise.session()?.set('unlocked', true);
        return { content: [] };
      });
      const listed = () => ['open', ...(valise.session()?.get('unlocked') ? ['locked'] : [])];
      setHandler(at.major, server, 'tools/list', async () => ({
        tools: listed().map((name) => ({ name, inputSchema: { type: 'object' } })),
      }));
      setHandler(at.major, server, 'prompts/list', async () => ({
        prompts: listed().map((name) => ({ name })),
      }));
      setHandler(at.major, server, 'resources/list', async () => ({
        resources: listed().map((name) => ({ name, uri: `notes://${name}` })),
      }));
      return server;
    };
    return attach(build, at);
  };

  it.each(['tools', 'prompts', 'resources'])(
    '[S-35] a list shows the %s of the session that the request names, and carries that session',
    async (kind) => {
      const client = await open();
      const names = async (_meta?: object) => {
        const result = resultOf(await client.request(`${kind}/list`, _meta && { _meta }));
        expect(at.sessionIn(result) !== undefined).toBe(_meta !== undefined);
        return (result[kind] as { name: string }[]).map(({ name }) => name);
      };
      const [a, b] = [await client.create(), await client.create()];
      const result = resultOf(await client.in(a, 'unlock'));
      const unlocked = { ...a, ...at.sessionIn(result) };
      expect(await names(at.sent(unlocked))).toEqual(['open', 'locked']);
      expect(await names(at.sent(b))).toEqual(['open']);
      expect(await names()).toEqual(['open']);
      const gone = await client.request(`${kind}/list`, { _meta: at.sent({ sessionId: 'sess-none' }) });
      expect(errorOf(gone).code).toBe(at.code.notFound);
    },
  );
});
