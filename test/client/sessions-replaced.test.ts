import { Client } from '@modelcontextprotocol/client';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { openValise } from 'mcp-valise/client';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { endServers, listen } from '../server/http-stage.ts';
import { KINDS } from './hosts.ts';
import { openSessionHost, sessionOf } from './sessions-host.ts';
import { transportSessions } from './transport-sessions.ts';

const NOTES = 'https://notes.example.com/mcp';
const tool = { name: 'work', arguments: {} };

/** A server of the older era that can be replaced by one without sessions while a client is connected. */
async function openReplaceable() {
  const sessionful = createValise({ name: 'test', sessions: {} });
  const ran: string[] = [];
  let isReplaced = false;
  const build = () => {
    const plain = new McpServer({ name: 'test', version: '1.0.0' });
    const mcp = isReplaced ? plain : sessionful.install(plain);
    const version = isReplaced ? 'later' : 'first';
    mcp.registerTool('work', {}, async () => {
      ran.push(version);
      return { content: [] };
    });
    return mcp;
  };
  const { serve, lose } = transportSessions(build);
  const url = await listen(serve);
  const replace = (): void => {
    isReplaced = true;
    lose();
  };
  return { url, ran, replace };
}

afterEach(endServers);

describe('a session whose server was replaced by one without sessions', () => {
  it.each([{ onGone: 'throw' }, { onGone: 'recreate' }, { ordering: 'serial' }] as const)(
    'Calls in a session fail if the client notices during one that the server has no sessions now (%o)',
    async (behaviour) => {
      const { url, ran, replace } = await openReplaceable();
      const valise = await openValise({ store: memoryStore(), allowLocal: true });
      const client = new Client({ name: 'me', version: '1.0.0' }, { versionNegotiation: { mode: 'legacy' } });
      await valise.connect(client, url);
      onTestFinished(async () => {
        await client.close();
        await valise.close();
      });
      const session = await valise.sessions(client).create(behaviour);
      await session.run(() => client.callTool(tool));
      replace();
      for (let times = 0; times < 2; times++)
        await expect(session.run(() => client.callTool(tool))).rejects.toMatchObject({ code: 'no-sessions' });
      expect(ran).toEqual(['first']);
      expect(session.isGone).toBe(false);
      await client.callTool(tool);
      expect(ran).toEqual(['first', 'later']);
    },
  );

  it.each(KINDS)(
    'Calls in a session fail if a client of kind $kind connects again to a server without sessions',
    async (kind) => {
      const host = await openSessionHost(kind);
      const valise = await openValise({ store: memoryStore() });
      onTestFinished(async () => {
        await valise.close();
        await host.close();
      });
      const named = async () => {
        const client = await host.connect(valise, NOTES);
        const session = await valise.sessions(client).named('a');
        return { client, call: () => session.run(() => client.callTool(tool)) };
      };
      const first = await named();
      await first.call();
      await first.client.close();
      const { sessions: _, ...others } = host.capabilities as Record<string, object>;
      host.capabilities = others;
      const later = await named();
      host.seen.length = 0;
      await expect(later.call()).rejects.toMatchObject({ code: 'no-sessions' });
      expect(host.seen).toEqual([]);
      await later.client.close();
      // Where the server has sessions again, it may say so in the place for experiments alone.
      host.capabilities = { ...others, experimental: { sessions: {} } };
      await (await named()).call();
      expect(sessionOf(host.last('tools/call').meta)).toMatchObject({ sessionId: 'sess-1' });
    },
  );

  it.each(KINDS)(
    'A session continues if the server created it without announcing sessions ($kind)',
    async (kind) => {
      const host = await openSessionHost(kind);
      const valise = await openValise({ store: memoryStore() });
      onTestFinished(async () => {
        await valise.close();
        await host.close();
      });
      host.capabilities = { tools: {} };
      const client = await host.connect(valise, NOTES);
      const session = await valise.sessions(client).create();
      await session.run(() => client.callTool(tool));
      expect(sessionOf(host.last('tools/call').meta)).toMatchObject({ sessionId: 'sess-1' });
    },
  );

  it.each(['legacy', { pin: '2026-07-28' }] as const)(
    'A session continues if only the snapshot of the server says that it has none (%o)',
    async (mode) => {
      const host = await openSessionHost(KINDS[mode === 'legacy' ? 1 : 2]);
      const store = memoryStore();
      host.sessionId = 'transport-1';
      const started = async () => {
        const valise = await openValise({ store });
        const client = new Client({ name: 'me', version: '1.0.0' }, { versionNegotiation: { mode } });
        await valise.connect(client, NOTES, { fetch: host.fetch });
        const close = async () => {
          await client.close();
          await valise.close();
        };
        return { client, sessions: valise.sessions(client), close };
      };
      onTestFinished(() => host.close());
      const { capabilities } = host;
      host.capabilities = { tools: {} };
      await (await started()).close();
      host.capabilities = capabilities;
      host.seen.length = 0;
      for (let times = 0; times < 2; times++) {
        const { client, sessions, close } = await started();
        const session = await sessions.named('a');
        await session.run(() => client.callTool(tool));
        expect(sessionOf(host.last('tools/call').meta)).toMatchObject({ sessionId: 'sess-1' });
        await close();
      }
      expect(host.seen.map(({ method }) => method).join()).not.toMatch(/initialize|discover/);
    },
  );
});
