import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it, onTestFinished } from 'vitest';
import { root } from '../house/sources.ts';
import { noServices, startDocumentedNginx, startHaproxy } from '../services.ts';
import { because } from '../skip.ts';
import { killInTurn } from './bench.ts';
import { type Fleet, startFleet } from './fleet.ts';

const body = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: {
    name: 'notes',
    arguments: {},
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'load', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    },
  },
});
const headers = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  'mcp-protocol-version': '2026-07-28',
  'mcp-method': 'tools/call',
  'mcp-name': 'notes',
};

/** Calls until told to stop, one every 10 ms or so; which share of the calls failed. */
async function load(urls: readonly URL[], isOver: () => boolean): Promise<number> {
  let calls = 0;
  let failed = 0;
  const lane = async (): Promise<void> => {
    while (!isOver()) {
      const url = urls[calls++ % urls.length] as URL;
      const isServed = await fetch(url, { method: 'POST', headers, body })
        .then(async (response) => (await response.text()).includes('"text":"[]"'))
        .catch(() => false);
      if (!isServed) failed++;
      await pause(20);
    }
  };
  await Promise.all([lane(), lane()]);
  return failed / calls;
}

/** The share of failed calls while each instance is killed and comes back: behind the balancer, and to the instances themselves. */
async function failures({ url, urls, ...fleet }: Fleet): Promise<{ balanced: number; direct: number }> {
  let over = false;
  const isOver = () => over;
  const [balanced, direct] = [load([url], isOver), load(urls, isOver)];
  await killInTurn({ url, urls, ...fleet });
  over = true;
  return { balanced: await balanced, direct: await direct };
}

describe.skipIf(noServices)('instances that are killed in turn', because('needs nginx and HAProxy'), () => {
  it.each([
    ['nginx', startDocumentedNginx],
    ['HAProxy', startHaproxy],
  ])(
    'Instances that are killed in turn lose at most a few percent of the calls behind %s with the documented configuration',
    async (_, behind) => {
      const folder = mkdtempSync(join(tmpdir(), 'valise-balancer-'));
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
      const log = join(folder, 'effects.log');
      const fleet = await startFleet({
        store: `sqlite:${folder}/state.db`,
        keys: generateKey(),
        log,
        behind,
      });
      onTestFinished(fleet.stop);
      const { balanced, direct } = await failures(fleet);
      process.stdout.write(
        `failed behind the balancer ${balanced.toFixed(3)}, directly ${direct.toFixed(3)}\n`,
      );
      expect(direct).toBeGreaterThan(0.1);
      expect(balanced).toBeLessThan(0.05);
      expect(balanced).toBeLessThan(direct / 3);
    },
  );

  it.each(['nginx.conf', 'haproxy.cfg'])(
    'The operators page contains the configuration in examples/%s',
    (name) => {
      const file = readFileSync(`${root}examples/${name}`, 'utf8');
      const page = readFileSync(`${root}docs/operators.md`, 'utf8');
      const withoutHead = file.split('\n').slice(2).join('\n').trim();
      expect(page).toContain(withoutHead);
    },
  );
});
