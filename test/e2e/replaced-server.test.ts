import type { RequestListener } from 'node:http';
import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import { McpServer as McpServerV2 } from '@modelcontextprotocol/server';
import { openValise } from 'mcp-valise/client';
import { generateKey } from 'mcp-valise/seal';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { httpV1, httpV2 } from '../../examples/serve-http.ts';
import { accept, name, text } from '../server/flow-peer.ts';
import { endServers, listen } from '../server/http-stage.ts';
import { callText, makeTransport } from './hosts.ts';
import { askable } from './rounds-stage.ts';

afterEach(endServers);

type Sdk = 'v1' | 'v2';

/** A place where one server takes the place of another: first the SDK's own sessions, then none, behind `valise.http`. */
async function place(sdk: Sdk) {
  const ran: string[] = [];
  const begin = async (called: string, stateless: boolean): Promise<RequestListener> => {
    const valise = createValise({ name: 'greeter', keys: generateKey(), store: memoryStore() });
    const McpServer = (sdk === 'v1' ? McpServerV1 : McpServerV2) as typeof McpServerV2;
    const build = () => {
      const server = new McpServer({ name: 'greeter', version: '1.0.0' });
      if (stateless) valise.install(server);
      server.registerTool('where', {}, (async () => {
        ran.push(called);
        return text(called);
      }) as never);
      if (stateless)
        server.registerTool(
          'greet',
          {},
          valise.flow(async (flow) => text(`Hello ${(await flow.ask('who', name)).name}`)) as never,
        );
      return server;
    };
    const { answer } = await (sdk === 'v1' ? httpV1 : httpV2)(build, stateless);
    return (stateless ? valise.http(answer) : answer) as RequestListener;
  };
  let serve = await begin('old', false);
  const url = await listen((request, response) => serve(request, response));
  return { url, ran, replace: async () => void (serve = await begin('new', true)) };
}

const PAIRS = (['v1', 'v2'] as const).flatMap((sdk) =>
  (['v1', 'v2'] as const).map((client) => ({ sdk, client })),
);
const person = () => accept({ name: 'Ada' });

describe.each(PAIRS)(
  'an SDK $client client whose SDK $sdk server with sessions was replaced by one without',
  ({ sdk, client }) => {
    it('a client with Valise starts a new session automatically when the server was replaced, and can be asked', async () => {
      const { url, ran, replace } = await place(sdk);
      const host = askable(client, 'legacy', person);
      const valise = await openValise({ store: memoryStore() });
      await valise.connect(host, url);
      expect(await callText(host, 'where')).toBe('old');
      await replace();
      expect(await callText(host, 'where')).toBe('new');
      expect(await callText(host, 'greet')).toBe('Hello Ada');
      expect(ran).toEqual(['old', 'new']);
      await host.close();
      await valise.close();
    });

    it('a stock client gets session not found when the server was replaced, and can be asked after it reconnects', async () => {
      const { url, ran, replace } = await place(sdk);
      const connected = async () => {
        const host = askable(client, 'legacy', person);
        await host.connect(makeTransport({ client, era: 'legacy' } as never, url));
        return host;
      };
      const host = await connected();
      expect(await callText(host, 'where')).toBe('old');
      await replace();
      await expect(callText(host, 'where')).rejects.toThrow('Session not found');
      expect(ran).toEqual(['old']);
      await host.close();
      const again = await connected();
      expect(await callText(again, 'where')).toBe('new');
      expect(await callText(again, 'greet')).toBe('Hello Ada');
      await again.close();
    });
  },
);
