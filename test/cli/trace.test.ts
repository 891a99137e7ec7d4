import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { serveExample, VALISE, valise } from './valise.ts';

const add = ['add_item', '{"item":"book","price":12}', '--trace', '--store', 'memory:'];
const CALLED =
  /├─ tools\/call ─+▶│\n│ {3}add_item \{"item":"book","price":12\}\n(?:│ {3}◆ .*\n)*│◀─+ result ─┤\n│ {3}Cart: book; total 12\n│ {3}◆ session state "Cart Contents": \{"items":\["book"\],"price":12\}\n/;

describe('--trace', { timeout: 60_000 }, () => {
  it.each(['legacy', 'modern'])(
    'draws the messages of a call over HTTP on stderr, without secrets (%s)',
    async (era) => {
      const { url } = await serveExample(['shop']);
      const secret = ['-H', 'Authorization: Bearer s3cret'];
      const ran = await valise(['call', url, ...add, '--allow-local', '--era', era, ...secret]);
      expect(ran).toMatchObject({ code: 0, stdout: 'Cart: book; total 12\n' });
      expect(ran.stderr).toMatch(CALLED);
      expect(ran.stderr).not.toContain('s3cret');
      expect(ran.stderr).not.toMatch(/Mcp-Session-Id: "/);
    },
  );

  it('draws the messages of a call to a command', async () => {
    const ran = await valise(['call', `stdio:${process.execPath} ${VALISE} example shop --stdio`, ...add]);
    expect(ran).toMatchObject({ code: 0, stderr: expect.stringMatching(CALLED) });
  });

  it('draws what the bridge and the server say to each other, and leaves standard output to the host', async () => {
    const { url } = await serveExample(['shop']);
    const bridge = spawn(process.execPath, [VALISE, 'connect', url, '--trace', '--store', 'memory:']);
    const said = Promise.all([text(bridge.stdout), text(bridge.stderr)]);
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'h', version: '1' },
    };
    bridge.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })}\n`);
    bridge.stdout.once('data', () => bridge.stdin.end());
    const [stdout, stderr] = await said;
    expect(JSON.parse(stdout)).toMatchObject({ id: 1, result: { serverInfo: {} } });
    expect(stderr).toMatch(/├─ initialize ─+▶│\n[\s\S]*│◀─+ result ─┤\n/);
  });
});
