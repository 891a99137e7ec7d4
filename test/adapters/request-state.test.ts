import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import {
  createMcpHandler,
  inputRequired,
  McpServer,
  type RequestStateCodec,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { requestStateCodec } from 'mcp-valise/adapters';
import { createSealer, generateKey, memoryLedger } from 'mcp-valise/seal';
import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';

interface State {
  readonly secret: string;
}

interface Caller {
  readonly user: string;
  readonly tool?: string;
}

describe('requestStateCodec', () => {
  it('carries the state of a flow from one instance to another through a stock client that cannot read it', async () => {
    const keys = generateKey();
    const seen: string[] = [];
    const requestedSchema = { type: 'object' as const, properties: { name: { type: 'string' as const } } };
    const instance = () => {
      const codec: RequestStateCodec<State> = requestStateCodec<State, ServerContext>(
        createSealer({ keys, audience: 'asking' }),
        { bind: ({ mcpReq }) => mcpReq.method },
      );
      return createMcpHandler(() => {
        const server = new McpServer(
          { name: 'asking', version: '1.0.0' },
          { requestState: { verify: codec.verify } },
        );
        server.registerTool('ask', {}, async (ctx) => {
          const state = ctx.mcpReq.requestState<State>();
          if (state) return { content: [{ type: 'text', text: state.secret }] };
          return inputRequired({
            inputRequests: { who: inputRequired.elicit({ message: 'Who?', requestedSchema }) },
            requestState: await codec.mint({ secret: 'step one' }, ctx),
          });
        });
        return server;
      });
    };
    const instances = [instance(), instance()];
    let calls = 0;
    const fetch = async (input: string | URL, init?: RequestInit): Promise<Response> => {
      const request = new Request(input, init);
      const body = await request.clone().text();
      if (body.includes('"tools/call"')) {
        seen.push(body);
        calls++;
      }
      const target = instances[calls % 2] as (typeof instances)[0];
      return target.fetch(request);
    };
    const client = new Client(
      { name: 'stock', version: '1.0.0' },
      { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: { pin: '2026-07-28' } } },
    );
    client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { name: 'Ada' } }));
    await client.connect(new StreamableHTTPClientTransport(new URL('http://127.0.0.1/mcp'), { fetch }));
    const result = await client.callTool({ name: 'ask', arguments: {} });
    expect(result.content).toEqual([{ type: 'text', text: 'step one' }]);
    expect(seen).toHaveLength(2);
    expect(seen[1]).toContain('requestState');
    expect(seen[1]).not.toContain('step one');
    await client.close();
  });

  it('opens state only for its principal, its binding, its purpose and in time', async () => {
    let now = Date.now();
    const sealer = createSealer({ keys: generateKey(), audience: 'a', now: () => now, skew: 0 });
    const options = { subject: ({ user }: Caller) => user, bind: ({ tool }: Caller) => tool ?? null };
    const codec = requestStateCodec<State, Caller>(sealer, { ...options, ttl: '5m' });
    const other = requestStateCodec<State, Caller>(sealer, { ...options, purpose: 'another' });
    const state = await codec.mint({ secret: 'x' }, { user: 'ada', tool: 'ask' });
    expect(await codec.verify(state, { user: 'ada', tool: 'ask' })).toEqual({ secret: 'x' });
    await expect(codec.verify(state, { user: 'eve', tool: 'ask' })).rejects.toThrow();
    await expect(codec.verify(state, { user: 'ada', tool: 'pay' })).rejects.toThrow();
    await expect(other.verify(state, { user: 'ada', tool: 'ask' })).rejects.toThrow();
    await expect(codec.verify(`${state}x`, { user: 'ada', tool: 'ask' })).rejects.toThrow();
    await expect(codec.mint({ secret: 'x' })).rejects.toMatchObject({ code: 'invalid-argument' });
    now += 301_000;
    await expect(codec.verify(state, { user: 'ada', tool: 'ask' })).rejects.toMatchObject({
      reason: 'expired',
    });
  });

  it('accepts a state once if asked to', async () => {
    const sealer = createSealer({ keys: generateKey(), ledger: memoryLedger() });
    const codec = requestStateCodec<State>(sealer, { once: true });
    const state = await codec.mint({ secret: 'x' });
    expect(await codec.verify(state, undefined)).toEqual({ secret: 'x' });
    await expect(codec.verify(state, undefined)).rejects.toThrow();
  });

  it('leaves large state in the store of the sealer', async () => {
    const store = memoryStore();
    const sealer = createSealer({ keys: generateKey(), spill: { store } });
    const codec = requestStateCodec<State>(sealer);
    const state = await codec.mint({ secret: 'x'.repeat(50_000) });
    expect(state.length).toBeLessThan(1000);
    expect((await codec.verify(state, undefined)).secret).toHaveLength(50_000);
  });
});
