import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { parseResolution, resolutionText, resolvingFetch } from '../../cli/src/connection/resolve.ts';

/** A server on 127.0.0.1 that says which host it was asked for. Its port. */
async function openEcho(): Promise<number> {
  const server = createServer((request, response) => response.end(request.headers.host)).listen(
    0,
    '127.0.0.1',
  );
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

describe('--resolve', () => {
  it.each([
    ['shop.example.com:443:127.0.0.1', ['127.0.0.1'], 443],
    ['shop.example.com:443:127.0.0.1:8443', ['127.0.0.1'], 8443],
    ['+shop.example.com:443:127.0.0.1', ['127.0.0.1'], 443],
    ['shop.example.com.:443:127.0.0.1', ['127.0.0.1'], 443],
    ['Shop.Example.com:443:127.0.0.1', ['127.0.0.1'], 443],
    ['shop.example.com:443:::1', ['::1'], 443],
    ['shop.example.com:443:[::1]', ['::1'], 443],
    ['shop.example.com:443:[::1]:8443', ['::1'], 8443],
    ['shop.example.com:443:2001:db8::1:8443', ['2001:db8::1:8443'], 443],
    ['shop.example.com:443:127.0.0.2,127.0.0.1', ['127.0.0.2', '127.0.0.1'], 443],
    ['shop.example.com:443:::1,[2001:db8::1],127.0.0.1:8443', ['::1', '2001:db8::1', '127.0.0.1'], 8443],
  ])('--resolve %s is read like curl reads it', (text, addresses, toPort) => {
    const read = parseResolution(text);
    expect(read).toEqual({ host: 'shop.example.com', port: 443, addresses, toPort });
    expect(parseResolution(resolutionText(read))).toEqual(read);
  });

  it.each([
    'shop.example.com',
    'shop.example.com:443',
    'shop.example.com:443:',
    'shop.example.com:443:elsewhere',
    'shop.example.com:443:127.0.0.1,',
    'shop.example.com:443:127.0.0.1,elsewhere',
    'shop.example.com:443:[127.0.0.1]',
    'shop.example.com:443:[::1',
    'shop.example.com:443:127.0.0.1:',
    'shop.example.com:443:127.0.0.1:99999',
    'shop.example.com:0:127.0.0.1',
    '++shop.example.com:443:127.0.0.1',
    '.:443:127.0.0.1',
    '[::1:443:127.0.0.1',
    '::1:443:127.0.0.1',
  ])('--resolve %s is refused', (text) => {
    expect(() => parseResolution(text)).toThrow(expect.objectContaining({ code: 'bad-resolve' }));
  });

  it.each([
    ['shop.example.com.', 'shop.example.com'],
    ['shop.example.com', 'shop.example.com.'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['[0:0::1]', '[::1]'],
  ])('--resolve for %s applies to http://%s too', async (named, asked) => {
    const port = await openEcho();
    const at = resolvingFetch([parseResolution(`${named}:80:127.0.0.1:${port}`)]);
    expect(await (await at(`http://${asked}/`)).text()).toBe(asked);
  });

  it('--resolve leaves other hosts alone, also if a redirect leads to one', async () => {
    const elsewhere = await openEcho();
    const server = createServer((_, response) =>
      response.writeHead(307, { location: `http://127.0.0.1:${elsewhere}/` }).end(),
    ).listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const at = resolvingFetch([parseResolution(`shop.example.com:80:127.0.0.1:${port}`)]);
    expect(await (await at('http://shop.example.com/')).text()).toBe(`127.0.0.1:${elsewhere}`);
  });

  it('--resolve connects to the next address if one does not answer', async () => {
    const port = await openEcho();
    const at = resolvingFetch([parseResolution(`shop.example.com:80:127.0.0.2,127.0.0.1:${port}`)]);
    expect(await (await at('http://shop.example.com/')).text()).toBe('shop.example.com');
  });
});
