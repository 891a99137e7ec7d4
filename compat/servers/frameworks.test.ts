import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CLIENTS, call, type Kind, withStock, withValise } from './clients.ts';
import { COLUMNS, type Column, FRAMEWORKS } from './frameworks.ts';
import { keep, versionsOf } from './results.ts';
import type { Started } from './start.ts';

/** What each column asks of a framework. */
const CHECKS: Record<Column, (url: URL, kinds: readonly Kind[]) => Promise<void>> = {
  // A stock client of 2026-07-28 that is not signed in names no session, so there is nothing to keep its state by.
  async 'stock-jar'(url, kinds) {
    const named = kinds.filter((kind) => kind !== 'SDK 2, 2026-07-28');
    expect(named).not.toEqual([]);
    for (const kind of named)
      await withStock(kind, url, async (client) => {
        expect(await call(client, 'visit')).toBe('visit 1');
        expect(await call(client, 'visit')).toBe('visit 2');
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

    it.each(Object.keys(COLUMNS) as Column[])('%s', async (column) => {
      const { [column]: reason } = fails;
      const outcome = CHECKS[column]((server as Started).url, clients);
      if (reason === undefined) await outcome;
      else await expect(outcome, 'it works: take the reason out of frameworks.ts').rejects.toThrow();
      cells[column] = reason ?? limits[column] ?? 'works';
    });
  },
);
