// Opens `valise console` with 10,000 jar entries and 1,000 sessions in Chromium, and measures the page and its interactions
// against their budgets.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { chromium } from 'playwright-core';
import { register } from 'tsx/esm/api';
import { need } from '../scripts/services/install.mjs';

register();
const { fillLarge } = await import('../test/console/large.ts');

/** In milliseconds, and bytes for the size. */
const BUDGETS = { firstScreen: 1000, entries: 1000, filter: 200, scroll: 100, value: 200, gzip: 150 * 1024 };

const folder = mkdtempSync(join(tmpdir(), 'valise-bench-console-'));
const store = `sqlite:${join(folder, 'state.db')}`;
await fillLarge(store);
const valise = fileURLToPath(new URL('../bin/valise.js', import.meta.url));
const child = spawn(process.execPath, [valise, 'console', '--store', store, '--json', '--no-browser']);
const url = await new Promise((resolve) => {
  child.stdout.on('data', (chunk) => resolve(JSON.parse(String(chunk)).url));
});
const browser = await chromium.launch({
  executablePath: need('chromium', 'chromium'),
  args: ['--no-sandbox'],
});
const page = await browser.newPage();
const timed = async (work) => {
  const started = performance.now();
  await work();
  return Math.round(performance.now() - started);
};
await page.goto(url);
const origin = new URL(url).origin;
await page.locator('.shell').waitFor();
const measured = {};
measured.firstScreen = await timed(async () => {
  await page.goto(`${origin}/#/servers`);
  await page.reload();
  await page.getByRole('table', { name: 'Servers' }).getByRole('row').nth(1).waitFor();
});
measured.entries = await timed(async () => {
  await page.goto(`${origin}/#/state`);
  await page.reload();
  await page.getByRole('button', { name: 'entry 0', exact: true }).waitFor();
});
measured.filter = await timed(async () => {
  await page.getByPlaceholder(/Filter by server/).fill('entry 9876');
  await page.getByRole('button', { name: 'entry 9876' }).waitFor();
});
measured.value = await timed(async () => {
  await page.getByRole('button', { name: 'entry 9876' }).click();
  await page.locator('.json').first().waitFor();
});
await page.getByPlaceholder(/Filter by server/).fill('');
measured.scroll = await timed(async () => {
  await page.getByRole('region', { name: 'Entries' }).evaluate((box) => box.scrollTo(0, box.scrollHeight));
  await page.locator('[aria-rowindex="10001"]').waitFor();
});
measured.gzip = 0;
for (const path of ['', 'app.js', 'app.css', 'icon.svg'])
  measured.gzip += gzipSync(await page.evaluate(async (at) => (await fetch(`/${at}`)).text(), path)).length;
await browser.close();
child.kill();
rmSync(folder, { recursive: true, force: true });
const rows = Object.entries(BUDGETS).map(([name, budget]) => ({ name, measured: measured[name], budget }));
if (process.argv.includes('--json')) console.log(JSON.stringify(rows));
else console.table(rows);
process.exitCode = rows.every(({ measured: is, budget }) => is <= budget) ? 0 : 1;
