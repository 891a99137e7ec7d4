import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { child as bundle } from '../child.ts';
import type { Orders } from './beside-child.ts';
import { openSessionful, type Sessionful } from './sessionful.ts';

/** A host in a process of its own. */
interface Host {
  readonly child: ChildProcess;
  readonly lines: string[];
  /** The first line, from now on or before, that begins so. */
  said(start: string): Promise<string>;
  count(): Promise<number>;
  session(): Promise<string>;
  kill(): Promise<void>;
  close(): Promise<void>;
}

let folder: string;
let server: Sessionful;
let hosts: Host[];
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'valise-beside-'));
  server = await openSessionful();
  hosts = [];
});
afterEach(async () => {
  await Promise.all(hosts.map((host) => host.kill()));
  await server.close();
  rmSync(folder, { recursive: true });
});

function start(kind: string, resume: Orders['resume'] = 'alone'): Host {
  const script = bundle(join(import.meta.dirname, 'beside-child.ts'));
  const orders: Orders = { kind, store: `sqlite:${join(folder, 'state.db')}`, url: server.url, resume };
  const child = spawn(process.execPath, [script, JSON.stringify(orders)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.on('error', () => {});
  const exit = once(child, 'close');
  const lines: string[] = [];
  let wake = (): void => {};
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(line);
    wake();
  });
  const said = async (begins: string, from = 0): Promise<string> => {
    for (;;) {
      const found = lines.slice(from).find((line) => line.startsWith(begins));
      if (found !== undefined) return found;
      if (child.exitCode !== null) throw new Error(`It ended without: ${begins}`);
      await new Promise<void>((resolve) => (wake = resolve));
    }
  };
  const host: Host = {
    child,
    lines,
    said,
    async count() {
      const from = lines.length;
      child.stdin.write('\n');
      return Number((await said('count ', from)).slice(6));
    },
    session: async () => (await said('session ')).slice(8),
    async kill() {
      child.kill('SIGKILL');
      await exit;
    },
    async close() {
      child.stdin.end();
      await said('closed');
      await exit;
    },
  };
  hosts.push(host);
  return host;
}

const warnings = () => hosts.flatMap(({ lines }) => lines.filter((line) => line.startsWith('warning')));

describe.each(['v1', 'v2'])(
  '%s hosts that run at the same time on one store',
  { timeout: 60_000 },
  (kind) => {
    it('Hosts on one store have a session each, and each gets the notifications of its server', async () => {
      const one = start(kind);
      const first = await one.session();
      expect(await one.count()).toBe(1);
      const two = start(kind);
      const second = await two.session();
      expect(second).not.toBe(first);
      expect(await two.count()).toBe(1);
      expect(await one.count()).toBe(2);
      expect(two.lines).not.toContain('resumed');
      await vi.waitFor(() =>
        expect(
          new Set(server.heard.flatMap(({ verb, session }) => (verb === 'GET' ? [session] : []))),
        ).toEqual(new Set([first, second])),
      );
      await server.announce();
      await Promise.all([one.said('tools changed'), two.said('tools changed')]);
      expect(warnings()).toEqual([]);
    });

    it('A killed host resumes at once, even if another host started before or after it', async () => {
      const one = start(kind);
      const first = await one.session();
      const two = start(kind);
      const second = await two.session();
      expect(await one.count()).toBe(1);
      await one.kill();
      const again = start(kind);
      expect(await again.session()).toBe(first);
      expect(again.lines).toContain('resumed');
      expect(await again.count()).toBe(2);
      expect(await two.count()).toBe(1);
      // What the other one loses, it begins anew beside it.
      await fetch(server.url, { method: 'DELETE', headers: { 'mcp-session-id': second } });
      expect(await two.count()).toBe(1);
      await again.kill();
      const third = start(kind);
      expect(await third.session()).toBe(first);
      expect(await third.count()).toBe(3);
      expect(warnings()).toEqual([]);
    });

    it('A host that closes leaves its session to the next one', async () => {
      const one = start(kind);
      const first = await one.session();
      expect(await one.count()).toBe(1);
      await one.close();
      const two = start(kind);
      expect(await two.session()).toBe(first);
      expect(await two.count()).toBe(2);
    });

    it('Each host has its own session even if all start together or the server loses all sessions, and nobody is warned', async () => {
      const all = [start(kind), start(kind), start(kind)];
      expect(new Set(await Promise.all(all.map((host) => host.session()))).size).toBe(3);
      expect(await Promise.all(all.map((host) => host.count()))).toEqual([1, 1, 1]);
      server.lose();
      expect(await Promise.all(all.map((host) => host.count()))).toEqual([1, 1, 1]);
      expect(server.sessions()).toHaveLength(3);
      expect(await Promise.all(all.map((host) => host.count()))).toEqual([2, 2, 2]);
      expect(warnings()).toEqual([]);
    });

    it('Hosts without ownSession share one session with another host', async () => {
      const host = start(kind);
      const first = await host.session();
      expect(await host.count()).toBe(1);
      const shared = [start(kind, true), start(kind, true)];
      expect(await Promise.all(shared.map((one) => one.session()))).toEqual([first, first]);
      expect((await Promise.all(shared.map((one) => one.count()))).sort()).toEqual([2, 3]);
      await host.kill();
      const again = start(kind);
      expect(await again.session()).toBe(first);
    });
  },
);
