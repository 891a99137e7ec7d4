import { mkdir, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import axe from 'axe-core';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';

/** Screenshots go into the documents if `VALISE_SCREENSHOTS` is set, else nowhere: they would change with each run. */
const IMAGES = fileURLToPath(new URL('../../docs/images/', import.meta.url));

interface Violation {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

/** Fails if axe finds anything on the page. */
export async function accessible(page: Page): Promise<void> {
  const client = await page.context().newCDPSession(page);
  // The page's own policy forbids scripts from elsewhere; the debugger is not bound to it.
  await client.send('Runtime.evaluate', { expression: axe.source });
  const { result } = await client.send('Runtime.evaluate', {
    expression: 'axe.run(document).then(({ violations }) => JSON.stringify(violations))',
    awaitPromise: true,
    returnByValue: true,
  });
  const violations = JSON.parse(String(result.value)) as readonly Violation[];
  expect(
    violations.map(
      ({ id, nodes }) =>
        `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join('\n')}`,
    ),
  ).toEqual([]);
  await client.detach();
}

/** Looks at a screen in light and dark: nothing for axe to find, no layout shift, and a picture of each for the documents. */
export async function look(page: Page, name: string): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await accessible(page);
    if (process.env['VALISE_SCREENSHOTS']) await picture(page, `console-${name}-${colorScheme}`);
  }
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
}

/** Writes a picture as WebP, which is a third of a PNG. */
async function picture(page: Page, name: string): Promise<void> {
  const client = await page.context().newCDPSession(page);
  const { data } = await client.send('Page.captureScreenshot', { format: 'webp', quality: 82 });
  await mkdir(IMAGES, { recursive: true });
  await writeFile(`${IMAGES}${name}.webp`, Buffer.from(data, 'base64'));
  await client.detach();
}

/** Starts to count layout shifts. Call before the page loads. */
export async function countShifts(page: Page): Promise<void> {
  await page.addInitScript(() => {
    const counted = window as unknown as { shifted: number };
    counted.shifted = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as unknown as { value: number; hadRecentInput: boolean }[])
        if (!entry.hadRecentInput) counted.shifted += entry.value;
    }).observe({ type: 'layout-shift', buffered: true });
  });
}

/** Returns the layout shift so far. */
export function shifted(page: Page): Promise<number> {
  return page.evaluate(() => (window as unknown as { shifted: number }).shifted);
}
