import { openValise } from 'mcp-valise/client';
import { openStore } from 'mcp-valise/store';
import { sha256 } from '../../src/core/sha256.ts';

/** Fills a store with 10,000 jar entries of 200 servers, and 1,000 sessions of 20. */
export async function fillLarge(url: string): Promise<void> {
  const now = Date.now();
  const valise = await openValise({ store: url });
  const entries = Array.from({ length: 10_000 }, (_, at) => ({
    server: `server-${Math.floor(at / 50)}.example.com`,
    scope: 'server',
    key: `entry ${at}`,
    value: { at, text: 'x'.repeat(40) },
    setAt: new Date(now - at * 1000),
    expiresAt: new Date(now + 86_400_000 + at * 1000),
  }));
  const { imported } = await valise.jar.import({ version: 1, entries });
  if (imported !== entries.length) throw new Error(`imported ${imported}`);
  await valise.close();
  const store = await openStore(url);
  for (let at = 0; at < 1000; at++) {
    const target = `https://server-${at % 20}.example.com/mcp`;
    const id = `session-${at}`;
    const key = `kept-sessions/${sha256('')}/${sha256(target)}/${sha256(id)}`;
    await store.put(key, { target, id, label: `session ${at}`, usedAt: now - at * 1000, format: 1 });
  }
  await store.close();
}
