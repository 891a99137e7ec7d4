import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { because } from '../skip.ts';
import { Fixture, HAS_BROWSER, type Opened } from './fixture.ts';
import { fillLarge } from './large.ts';

describe.skipIf(!HAS_BROWSER)(
  'a console with 10,000 entries and 1,000 sessions',
  because('needs Chromium'),
  () => {
    let fixture: Fixture;
    let opened: Opened;
    beforeAll(async () => {
      fixture = await Fixture.open();
      await fillLarge(fixture.store());
      const { url } = await fixture.console(['--store', fixture.store()]);
      opened = await fixture.page(url);
    });
    afterAll(() => fixture?.close());

    it('keeps in the page only the rows that are seen, and reaches all of them', async () => {
      const { page } = opened;
      await page.goto(`${new URL(page.url()).origin}/#/state`);
      const table = page.getByRole('table', { name: 'Entries' });
      await table.getByRole('button', { name: 'entry 0', exact: true }).waitFor();
      expect(await table.getAttribute('aria-rowcount')).toBe('10001');
      expect(await table.getByRole('row').count()).toBeLessThan(60);
      await page
        .getByRole('region', { name: 'Entries' })
        .evaluate((box) => box.scrollTo(0, box.scrollHeight));
      await table.locator('[aria-rowindex="10001"]').waitFor();
      await page.getByPlaceholder(/Filter by server/).fill('entry 9876');
      await expect.poll(() => table.getAttribute('aria-rowcount')).toBe('2');
      await page.getByRole('button', { name: /All sessions/ }).click();
      const sessions = page.getByRole('table', { name: 'Sessions' });
      await sessions.getByText('session 0', { exact: true }).waitFor();
      expect(await sessions.getAttribute('aria-rowcount')).toBe('1001');
      expect(await sessions.getByRole('row').count()).toBeLessThan(60);
    });

    it('is smaller than 150 KB over the wire, all together', async () => {
      const { page, errors } = opened;
      const sizes = await page.evaluate(async () => {
        const texts = await Promise.all(
          ['', 'app.js', 'app.css', 'icon.svg'].map(async (path) => (await fetch(path)).text()),
        );
        return texts;
      });
      const gzipped = sizes.reduce((sum, text) => sum + gzipSync(text).length, 0);
      expect(gzipped).toBeLessThan(150 * 1024);
      // Nothing comes from elsewhere.
      const origins = await page.evaluate(() =>
        performance.getEntriesByType('resource').map(({ name }) => new URL(name).origin),
      );
      expect(new Set(origins)).toEqual(new Set([new URL(page.url()).origin]));
      expect(errors).toEqual([]);
    });
  },
);
