import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { generateKey } from 'mcp-valise/seal';
import { describe, expect, it } from 'vitest';
import { folder, serveExample, VALISE } from '../cli/valise.ts';

const SOAK = process.env['VALISE_SOAK'] === '1';
const HOSTS = SOAK ? 8 : 3;
const CALLS = SOAK ? 1250 : 24;
const KILL_EVERY = SOAK ? 250 : 12;
const KEYS = 10;

/** A host that starts its bridge anew whenever that has died, and repeats the one call whose answer it did not get. */
class Host {
  readonly #args: string[];
  #client: Client | undefined;
  #transport: StdioClientTransport | undefined;
  kills = 0;

  constructor(args: string[]) {
    this.#args = args;
  }

  async call(name: string, args: Record<string, unknown>): Promise<string> {
    for (;;) {
      try {
        const client = (this.#client ??= await this.#connect());
        const { content } = await client.callTool({ name, arguments: args });
        return (content as { text: string }[])[0]?.text ?? '';
      } catch (error) {
        if (!/Connection closed|Not connected|EPIPE/.test(String(error))) throw error;
        this.#client = undefined;
      }
    }
  }

  async #connect(): Promise<Client> {
    this.#transport = new StdioClientTransport({
      command: process.execPath,
      args: this.#args,
      stderr: 'ignore',
    });
    const client = new Client({ name: 'host', version: '1.0.0' });
    await client.connect(this.#transport);
    return client;
  }

  /** Kills the bridge, whatever it is doing. */
  kill(): void {
    const pid = this.#transport?.pid;
    if (pid) process.kill(pid, 'SIGKILL');
    this.kills++;
  }

  async close(): Promise<void> {
    await this.#client?.close();
  }
}

describe('valise connect under kills', { timeout: SOAK ? 1_800_000 : 180_000 }, () => {
  it(`valise connect loses no acknowledged call over ${HOSTS * CALLS} calls of ${HOSTS} hosts whose bridges are killed`, async () => {
    const { port } = await serveExample(['shop', '--stateless'], { VALISE_KEYS: generateKey() });
    const path = await folder();
    const told = await Promise.all(
      Array.from({ length: HOSTS }, async (_, at) => {
        const site = `shop${at}.example.com`;
        const host = new Host([
          VALISE,
          'connect',
          `http://${site}:${port}/mcp`,
          '--resolve',
          `${site}:${port}:127.0.0.1`,
          '--store',
          `sqlite:${join(path, 'shared.db')}`,
        ]);
        for (let call = 0; call < CALLS; call++) {
          const pending = host.call('remember', { name: `k${call % KEYS}`, value: `${call}` });
          if (call % KILL_EVERY === KILL_EVERY - 1) host.kill();
          expect(await pending).toBe(`Remembered k${call % KEYS}.`);
        }
        const kept: string[] = [];
        for (let key = 0; key < KEYS; key++) kept.push(await host.call('recall', { name: `k${key}` }));
        await host.close();
        return { kept, kills: host.kills };
      }),
    );
    const last = Array.from(
      { length: KEYS },
      (_, key) => `${CALLS - KEYS + ((key - (CALLS % KEYS) + KEYS) % KEYS)}`,
    );
    for (const { kept } of told) expect(kept).toEqual(last);
    const kills = told.reduce((sum, { kills }) => sum + kills, 0);
    expect(kills).toBeGreaterThan(0);
    console.log(`bridge: ${HOSTS * CALLS} calls of ${HOSTS} hosts, ${kills} bridges killed, nothing lost`);
  });
});
