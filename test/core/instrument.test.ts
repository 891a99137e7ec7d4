import { setFlagsFromString } from 'node:v8';
import { StreamableHTTPClientTransport as HttpV2, InMemoryTransport } from '@modelcontextprotocol/client';
import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server';
import { describe, expect, it } from 'vitest';
import type { TransportLike } from '../../src/core/instrument.ts';
import { type Instrumented, instrument } from '../../src/core/instrument.ts';
import type { Message } from '../../src/wire/index.ts';

const ping = (id: number): Message => ({ jsonrpc: '2.0', id, method: 'ping' });

/** A hook that notes what it sees and lets it pass. */
const noting = (notes: unknown[], note: string) => (message: Message) => {
  notes.push(note);
  return message;
};

/** What a transport needs in order to get a new token without asking anybody. */
const signedIn = {
  redirectUrl: 'http://127.0.0.1/back',
  clientMetadata: { redirect_uris: ['http://127.0.0.1/back'] },
  clientInformation: () => ({ client_id: 'test' }),
  tokens: () => ({ access_token: 'old', token_type: 'bearer', refresh_token: 'refresh' }),
  saveTokens: () => {},
  redirectToAuthorization: () => {},
  saveCodeVerifier: () => {},
  codeVerifier: () => '',
};

async function pair(): Promise<[TransportLike, TransportLike]> {
  const [near, far] = InMemoryTransport.createLinkedPair() as unknown as [TransportLike, TransportLike];
  await near.start();
  await far.start();
  return [near, far];
}

describe('instrument', () => {
  it('instrument() shows every message in both directions and keeps the object itself', async () => {
    const [near, far] = await pair();
    const seen: string[] = [];
    const { transport } = instrument(
      near,
      {},
      {
        inbound: (message) => {
          seen.push(`in ${'id' in message ? message.id : ''}`);
          return message;
        },
        outbound: (message) => {
          seen.push(`out ${'id' in message ? message.id : ''}`);
          return message;
        },
      },
    );
    expect(transport).toBe(near);
    const arrived: unknown[] = [];
    far.onmessage = (message) => void arrived.push(message);
    near.onmessage = (message) => void arrived.push(message);
    await near.send(ping(1));
    await far.send(ping(2));
    expect(seen).toEqual(['out 1', 'in 2']);
    expect(arrived).toEqual([ping(1), ping(2)]);
  });

  it('instrument() drops what a hook consumes and replaces what it replaces', async () => {
    const [near, far] = await pair();
    instrument(
      near,
      {},
      { outbound: (message) => ('id' in message && message.id === 1 ? undefined : ping(9)) },
    );
    const arrived: unknown[] = [];
    far.onmessage = (message) => void arrived.push(message);
    await near.send(ping(1));
    await near.send(ping(2));
    expect(arrived).toEqual([ping(9)]);
  });

  it('instrument() refuses a second attachment of one owner', async () => {
    const [near] = await pair();
    const owner = {};
    instrument(near, owner, {});
    expect(() => instrument(near, owner, {})).toThrow(expect.objectContaining({ code: 'already-connected' }));
  });

  it('instrument() places the owner that attached first nearest to the wire', async () => {
    const [near, far] = await pair();
    const order: string[] = [];
    for (const name of ['first', 'second']) {
      instrument(
        near,
        {},
        {
          inbound: noting(order, `in ${name}`),
          outbound: noting(order, `out ${name}`),
        },
      );
    }
    near.onmessage = () => void order.push('handler');
    await near.send(ping(1));
    await far.send(ping(2));
    expect(order).toEqual(['out second', 'out first', 'in first', 'in second', 'handler']);
  });

  it.each([
    ['v1', () => new StreamableHTTPServerTransport({})],
    ['v2', () => new NodeStreamableHTTPServerTransport({})],
  ])('instrument() uses the accessors of the %s HTTP server transport', (_major, make) => {
    const transport = make() as unknown as TransportLike & { _webStandardTransport: TransportLike };
    const seen: unknown[] = [];
    instrument(
      transport,
      {},
      {
        inbound: noting(seen, 'a'),
      },
    );
    instrument(
      transport,
      {},
      {
        inbound: noting(seen, 'b'),
      },
    );
    transport.onmessage = (message) => void seen.push(message);
    transport._webStandardTransport.onmessage?.(ping(1));
    expect(seen).toEqual(['a', 'b', ping(1)]);
  });

  it.each([
    ['v1 server', false, () => new StreamableHTTPServerTransport({})],
    ['v2 server', false, () => new NodeStreamableHTTPServerTransport({})],
    ['v1 server, handlers set once,', true, () => new StreamableHTTPServerTransport({})],
    ['v2 server, handlers set once,', true, () => new NodeStreamableHTTPServerTransport({})],
    ['v2 web-standard server, set once,', true, () => new WebStandardStreamableHTTPServerTransport({})],
  ])(
    'instrument() keeps fast properties on the transport of a %s, however many there are',
    (_kind, setOnce, make) => {
      setFlagsFromString('--allow-natives-syntax');
      const isFast = new Function('object', 'return %HasFastProperties(object)') as (
        object: object,
      ) => boolean;
      for (let count = 0; count < 3; count++) {
        const transport = make() as unknown as TransportLike;
        instrument(transport, {}, { setOnce, inbound: (message) => message });
        transport.onmessage = () => {};
        void transport.start();
        expect(isFast(transport)).toBe(true);
      }
    },
  );

  it('instrument() calls an existing handler once, as the SDKs chain it', async () => {
    const [near, far] = await pair();
    const calls: string[] = [];
    near.onmessage = () => void calls.push('before');
    instrument(
      near,
      {},
      {
        inbound: noting(calls, 'hook'),
      },
    );
    const chained = near.onmessage;
    near.onmessage = (message, extra) => {
      chained?.(message, extra);
      calls.push('after');
    };
    await far.send(ping(1));
    expect(calls).toEqual(['hook', 'before', 'after']);
  });

  it('instrument() reports the close once, and chains its handlers too', async () => {
    const [near] = await pair();
    const calls: string[] = [];
    near.onclose = () => void calls.push('before');
    instrument(near, {}, { closed: () => void calls.push('hook') });
    const chained = near.onclose;
    near.onclose = () => {
      chained?.();
      calls.push('after');
    };
    await near.close();
    expect(calls).toEqual(['hook', 'before', 'after']);
  });

  /** A transport that has to sign in for the first message, and what it posts. */
  const signingIn = (Http: typeof HttpV1 | typeof HttpV2) => {
    const posted: { id: unknown }[] = [];
    const fetch = async (url: string | URL, init?: RequestInit): Promise<Response> => {
      const { pathname } = new URL(url);
      if (pathname === '/token') return Response.json({ access_token: 'fresh', token_type: 'bearer' });
      if (pathname !== '/mcp') return new Response(null, { status: 404 });
      posted.push(JSON.parse(String(init?.body)));
      return new Response(null, { status: posted.length === 1 ? 401 : 202 });
    };
    const url = new URL('http://127.0.0.1/mcp');
    const transport = new Http(url, { fetch, authProvider: signedIn }) as unknown as TransportLike;
    return { posted, transport };
  };

  describe.each([
    ['v1', HttpV1],
    ['v2', HttpV2],
  ])('a transport of %s that sends a message again after signing in', (_, Http) => {
    it('instrument() shows a message that is sent again once', async () => {
      const { posted, transport } = signingIn(Http);
      let count = 0;
      instrument(
        transport,
        {},
        { outbound: (message) => ({ ...message, id: `mark-${++count}` }) as Message },
      );
      await transport.send(ping(1));
      await transport.send(ping(2));
      expect(posted).toMatchObject([{ id: 'mark-1' }, { id: 'mark-1' }, { id: 'mark-2' }]);
    });

    it('instrument() shows a message that is sent again once to each of two owners', async () => {
      const { posted, transport } = signingIn(Http);
      const notes: string[] = [];
      instrument(transport, {}, { outbound: (message) => ({ ...noting(notes, 'inner')(message) }) });
      instrument(transport, {}, { outbound: noting(notes, 'outer') });
      await transport.send(ping(1));
      expect(posted).toEqual([ping(1), ping(1)]);
      expect(notes).toEqual(['outer', 'inner']);
    });

    it('instrument() shows a copy of a sent message', async () => {
      const { transport } = signingIn(Http);
      const notes: string[] = [];
      instrument(transport, {}, { outbound: noting(notes, 'seen') });
      const message = ping(1);
      await transport.send(message);
      await transport.send({ ...message });
      expect(notes).toEqual(['seen', 'seen']);
    });
  });

  it('instrument() lets its owner bypass the hooks in both directions', async () => {
    const [near, far] = await pair();
    const link: Instrumented = instrument(near, {}, { inbound: () => undefined, outbound: () => undefined });
    const arrived: unknown[] = [];
    near.onmessage = (message) => void arrived.push(message);
    far.onmessage = (message) => void arrived.push(message);
    link.deliver(ping(1));
    await link.send(ping(2));
    expect(arrived).toEqual([ping(1), ping(2)]);
  });
});

describe('instrument() with handlers that are set once', () => {
  const waiting = (): [TransportLike, TransportLike] =>
    InMemoryTransport.createLinkedPair() as unknown as [TransportLike, TransportLike];

  it('instrument() shows messages from the start on, including those that came before it', async () => {
    const [near, far] = waiting();
    const seen: unknown[] = [];
    const link = instrument(near, {}, { setOnce: true, inbound: noting(seen, 'hook') });
    await far.start();
    await far.send(ping(1));
    near.onmessage = (message) => void seen.push(message);
    await near.start();
    await far.send(ping(2));
    link.deliver(ping(3));
    expect(seen).toEqual(['hook', ping(1), 'hook', ping(2), ping(3)]);
  });

  it('instrument() places the owner that attached first nearest to the wire if handlers are set once', async () => {
    const [near, far] = waiting();
    const order: string[] = [];
    const hooks = (name: string) => ({
      setOnce: true,
      inbound: noting(order, `in ${name}`),
      outbound: noting(order, `out ${name}`),
    });
    for (const name of ['first', 'second']) instrument(near, {}, hooks(name));
    near.onmessage = () => void order.push('handler');
    await near.start();
    await far.start();
    await near.send(ping(1));
    await far.send(ping(2));
    expect(order).toEqual(['out second', 'out first', 'in first', 'in second', 'handler']);
  });

  it('instrument() calls existing handlers once, as the SDKs chain them, and reports the close once', async () => {
    const [near, far] = waiting();
    const calls: string[] = [];
    near.onmessage = () => void calls.push('before');
    near.onclose = () => void calls.push('closed before');
    instrument(
      near,
      {},
      {
        setOnce: true,
        inbound: noting(calls, 'hook'),
        closed: () => void calls.push('closed hook'),
      },
    );
    const { onmessage, onclose } = near;
    near.onmessage = (message, extra) => {
      onmessage?.(message, extra);
      calls.push('after');
    };
    near.onclose = () => {
      onclose?.();
      calls.push('closed after');
    };
    await near.start();
    await near.start();
    await far.start();
    await far.send(ping(1));
    expect(calls).toEqual(['hook', 'before', 'after']);
    calls.length = 0;
    await near.close();
    near.onclose?.();
    expect(calls.filter((call) => call === 'closed hook')).toHaveLength(1);
    expect(calls.slice(0, 3)).toEqual(['closed hook', 'closed before', 'closed after']);
  });

  it('instrument() refuses a second attachment of one owner if handlers are set once', () => {
    const [near] = waiting();
    const owner = {};
    instrument(near, owner, { setOnce: true });
    expect(() => instrument(near, owner, { setOnce: true })).toThrow(
      expect.objectContaining({ code: 'already-connected' }),
    );
  });
});
