import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { Fixture, HAS_BROWSER } from '../console/fixture.ts';
import { accessible } from '../console/screenshot.ts';
import { because } from '../skip.ts';
import { endAll, keys, type Stock, stock, WAYS } from './carriers-world.ts';

const text = (words: string) => ({ content: [{ type: 'text' as const, text: words }] });

/** Serves tools that ask with every kind of field, for consent, and for a secret. */
async function serve(): Promise<URL> {
  const valise = createValise({ name: 'shop', keys, store: memoryStore() });
  const build = () => {
    const server = new McpServer({ name: 'shop', version: '1.0.0' });
    const noInput = { inputSchema: z.object({}) };
    server.registerTool(
      'order',
      noInput,
      valise.flow(async (_, flow) => {
        const answer = await flow.ask('order', {
          message: 'Where do we send the umbrella?\nIt leaves today.',
          schema: {
            type: 'object',
            properties: {
              name: { type: 'string', title: 'Name', minLength: 2 },
              email: { type: 'string', title: 'Email', format: 'email', description: 'For the receipt.' },
              count: { type: 'integer', title: 'How many', minimum: 1, maximum: 9, default: 1 },
              color: { type: 'string', title: 'Color', enum: ['black', 'red'], enumNames: ['Black', 'Red'] },
              extras: { type: 'array', title: 'Extras', items: { type: 'string', enum: ['bag', 'ribbon'] } },
              gift: { type: 'boolean', title: 'It is a present' },
              day: { type: 'string', title: 'Not before', format: 'date' },
            },
            required: ['name', 'color'],
          } as const,
        });
        return text(JSON.stringify(answer));
      }),
    );
    server.registerTool(
      'erase',
      noInput,
      valise.flow(async (_, flow) => text(String(await flow.confirm('sure', 'Delete all <orders>?')))),
    );
    server.registerTool(
      'unlock',
      noInput,
      valise.flow(async (_, flow) => {
        const schema = z.object({ code: z.string().min(4).meta({ title: 'Code' }) });
        const { code } = await flow.ask('code', { message: 'What is the code?', schema, secret: true });
        return text(`${code.length} characters`);
      }),
    );
    return server;
  };
  const handler = toNodeHandler(createMcpHandler(valise.factory(build))) as RequestListener;
  const server = createServer(valise.http(handler) as RequestListener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await valise.close();
  });
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
}

/** Writes pictures for the documents if `VALISE_SCREENSHOTS` is set. */
async function picture(page: Page, name: string): Promise<void> {
  if (!process.env['VALISE_SCREENSHOTS']) return;
  const client = await page.context().newCDPSession(page);
  const { data } = await client.send('Page.captureScreenshot', { format: 'webp', quality: 82 });
  const folder = fileURLToPath(new URL('../../docs/images/', import.meta.url));
  await mkdir(folder, { recursive: true });
  await writeFile(`${folder}${name}.webp`, Buffer.from(data, 'base64'));
}

describe.skipIf(!HAS_BROWSER)('the page of a question in a browser', because('needs Chromium'), () => {
  let fixture: Fixture;
  let client: Stock;
  beforeAll(async () => {
    fixture = await Fixture.open();
  });
  afterAll(() => fixture?.close());
  beforeEach(async () => {
    client = await stock(WAYS[2], await serve());
  });
  afterEach(endAll);

  /** Calls a tool that asks, and opens the link of its result. */
  async function ask(tool: string, options: Parameters<Fixture['page']>[1] = {}) {
    const { text: said, handle } = await client.call(tool);
    const link = /^http\S+$/m.exec(said)?.[0] ?? '';
    const { page, errors } = await fixture.page(link, options, false);
    const again = async () => (await client.call(tool, { state_handle: handle })).text;
    return { page, errors, link, again };
  }

  it('the page of a question can be filled in and sent once, and the flow continues with the answer', async () => {
    const { page, errors, link, again } = await ask('order');
    await page.getByLabel('Name').fill('Ada');
    await page.getByLabel('Email').fill('ada@example.org');
    await page.getByLabel('How many').fill('2');
    await page.getByLabel('Color').selectOption('Red');
    await page.getByLabel('ribbon').check();
    await page.getByLabel('It is a present').check();
    await page.getByLabel('Not before').fill('2026-12-24');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('Your answer has been saved.').waitFor();
    expect(errors).toEqual([]);

    await page.goto(link);
    await page.getByText('This question has been answered.').waitFor();
    expect(await page.getByRole('button').count()).toBe(0);
    expect(JSON.parse((await again()).split('\n')[0] ?? '')).toEqual({
      name: 'Ada',
      email: 'ada@example.org',
      count: 2,
      color: 'red',
      extras: ['ribbon'],
      gift: true,
      day: '2026-12-24',
    });
  });

  it('two open copies of the page of a question accept one answer, the first that is sent', async () => {
    const { page, link, again } = await ask('order');
    const second = (await fixture.page(link, {}, false)).page;
    for (const [each, name] of [
      [page, 'Ada'],
      [second, 'Eve'],
    ] as const) {
      await each.getByLabel('Name').fill(name);
      await each.getByLabel('Color').selectOption('Black');
      await each.getByRole('button', { name: 'Send' }).click();
    }
    await page.getByText('Your answer has been saved.').waitFor();
    await second.getByText('This question has been answered.').waitFor();
    expect(await again()).toContain('"Ada"');
  });

  it('the page of a question shows an error beside an invalid field, and keeps the input', async () => {
    const { page } = await ask('order');
    await page.getByLabel('Name').fill('Ada');
    await page.getByLabel('Color').selectOption('Red');
    await page.getByLabel('How many').fill('12');
    // As a browser that does not check forms.
    await page.locator('form').evaluate((form) => form.setAttribute('novalidate', ''));
    await page.getByRole('button', { name: 'Send' }).click();
    const count = page.getByLabel('How many');
    await expect.poll(() => count.getAttribute('aria-invalid')).toBe('true');
    const note = await count.getAttribute('aria-describedby');
    expect(await page.locator(`#${note}`).textContent()).toContain('Should be');
    expect([await page.getByLabel('Name').inputValue(), await count.inputValue()]).toEqual(['Ada', '12']);
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await accessible(page);
    }
  });

  it.each([
    ['Yes', 'true'],
    ['No', 'false'],
  ])('the page for consent has two buttons and escapes its text; %s means %s', async (button, outcome) => {
    const { page, again } = await ask('erase');
    await page.getByText('Delete all <orders>?').waitFor();
    await page.getByRole('button', { name: button }).click();
    await page.getByText('Your answer has been saved.').waitFor();
    expect(await again()).toMatch(new RegExp(`^${outcome}`));
  });

  it('the page for a secret hides the input, and does not show it again after an error', async () => {
    const { page, again } = await ask('unlock');
    const code = page.getByLabel('Code');
    expect(await code.getAttribute('type')).toBe('password');
    await code.fill('123');
    await page.locator('form').evaluate((form) => form.setAttribute('novalidate', ''));
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('Should be').waitFor();
    expect(await code.inputValue()).toBe('');
    expect(await page.content()).not.toContain('123');
    await accessible(page);
    await code.fill('123456');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('Your answer has been saved.').waitFor();
    expect(await again()).toMatch(/^6 characters/);
  });

  it.each([
    ['wide', 900],
    ['narrow', 320],
  ])(
    'the page of a question has no axe violations and does not scroll sideways on a %s screen, light and dark',
    async (_, width) => {
      const { page, errors } = await ask('order', { viewport: { width, height: 840 } });
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        await accessible(page);
        expect(
          await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth),
        ).toBeLessThanOrEqual(0);
        if (width === 900 && colorScheme === 'light') await picture(page, 'question-page-light');
      }
      await page.getByRole('button', { name: 'Decline' }).click();
      await page.getByText('Your answer has been saved.').waitFor();
      await accessible(page);
      expect(errors).toEqual([]);
    },
  );

  it('the page of a question can be answered with the keyboard alone', async () => {
    const { page, again } = await ask('unlock');
    await page.keyboard.press('Tab');
    await page.keyboard.type('123456');
    await page.keyboard.press('Enter');
    await page.getByText('Your answer has been saved.').waitFor();
    expect(await again()).toMatch(/^6 characters/);
  });
});
