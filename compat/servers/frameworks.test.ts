import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CLIENTS, call, callBlocks, type Kind, withStock, withValise } from './clients.ts';
import { type Column, FRAMEWORKS } from './frameworks.ts';
import { keep, versionsOf } from './results.ts';
import type { Started } from './start.ts';

/** What each column asks of a framework. */
const CHECKS: Record<Column, (url: URL, kinds: readonly Kind[]) => Promise<void>> = {
  // Clients of 2025-11-25 have a session. On 2026-07-28 the model passes a handle on.
  async 'stock-jar'(url, kinds) {
    for (const kind of kinds)
      await withStock(kind, url, async (client) => {
        const [visit, handle = ''] = await callBlocks(client, 'visit');
        expect(visit).toBe('visit 1');
        const [, state_handle] = /^state_handle: (vh1_\S+)/m.exec(handle) ?? [];
        expect(state_handle !== undefined).toBe(kind === 'SDK 2, 2026-07-28');
        const [next] = await callBlocks(client, 'visit', state_handle === undefined ? {} : { state_handle });
        expect(next).toBe('visit 2');
      });
  },
  async 'stock-ask'(url, kinds) {
    for (const kind of kinds)
      expect(await withStock(kind, url, (client) => call(client, 'order'))).toBe('ordered size M');
  },
  async 'valise-jar'(url, kinds) {
    for (const kind of kinds)
      await withValise(
        kind,
        url,
        async (client) => expect(await call(client, 'visit')).toBe('visit 1'),
        async (client) => expect(await call(client, 'visit')).toBe('visit 2'),
      );
  },
  async 'valise-ask'(url, kinds) {
    for (const kind of kinds)
      await withValise(kind, url, async (client) =>
        expect(await call(client, 'order')).toBe('ordered size M'),
      );
  },
};

/** What each column means, after the name of the framework. */
const SENTENCES: Record<Column, string> = {
  'stock-jar': 'a server in it keeps state for a client without Valise',
  'stock-ask': 'a server in it asks the user of a client without Valise',
  'valise-jar': 'a server in it keeps state with a client that carries it',
  'valise-ask': 'a server in it asks the user of a client with Valise',
};

describe.concurrent.each(FRAMEWORKS)(
  '$name',
  ({ name, packages, start, limits = {}, fails = {}, clients = CLIENTS }) => {
    let server: Started | undefined;
    const cells: Partial<Record<Column, string>> = {};

    beforeAll(async () => {
      server = await start();
    });
    afterAll(async () => {
      await server?.stop();
      keep({ name, versions: versionsOf(packages), cells });
    });

    it.each(Object.entries(SENTENCES) as [Column, string][])('%s: %s', async (column) => {
      const { [column]: reason } = fails;
      const outcome = CHECKS[column]((server as Started).url, clients);
      if (reason === undefined) await outcome;
      else await expect(outcome, 'it works: take the reason out of frameworks.ts').rejects.toThrow();
      cells[column] = reason ?? limits[column] ?? 'works';
    });
  },
);
