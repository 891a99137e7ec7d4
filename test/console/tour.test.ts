import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isRunning } from '../cli/is-running.ts';
import { because } from '../skip.ts';
import { Fixture, HAS_BROWSER, type Opened } from './fixture.ts';
import { look } from './screenshot.ts';

describe.skipIf(!HAS_BROWSER)('valise tour --console', because('needs Chromium'), () => {
  let fixture: Fixture;
  let opened: Opened;
  beforeAll(async () => {
    fixture = await Fixture.open();
    const { url } = await fixture.start(['tour', '--console', '--json', '--no-browser']);
    opened = await fixture.page(url);
    opened.page.setDefaultTimeout(30_000);
  });
  afterAll(() => fixture?.close());

  it('kills and restarts real processes from the page, and the story continues with an answer given there', async () => {
    const { page, errors } = opened;
    await page.getByRole('button', { name: /^Play ?: A bug resolved/ }).click();
    const question = page.getByRole('region', { name: 'Question' });
    await question.getByText('How was this bug resolved?').waitFor();
    const processes = page.getByRole('region', { name: 'Processes' });
    // The story has killed the instance that asked. The page kills another, and starts the first one again.
    const dead = processes.getByRole('button', { name: /^Restart/ });
    await dead.waitFor();
    const victim = processes
      .getByRole('listitem')
      .filter({ has: page.getByRole('button', { name: /^Kill/ }) })
      .first();
    const pid = Number(/process (\d+)/.exec(await victim.innerText())?.[1]);
    expect(isRunning(pid)).toBe(true);
    await victim.getByRole('button', { name: /^Kill/ }).click();
    await expect.poll(() => isRunning(pid)).toBe(false);
    await expect.poll(() => dead.count()).toBe(2);
    await dead.first().click();
    await expect.poll(() => dead.count()).toBe(1);
    await page.evaluate(() => document.querySelector('main')?.scrollTo(0, 0));
    await look(page, 'tour');
    await question.getByLabel(/resolution/).selectOption('Duplicate');
    await question.getByRole('button', { name: 'Accept' }).click();
    await question.getByText('which work item is the original?').waitFor();
    await question.getByLabel(/duplicateOfId/).fill('4301');
    await question.getByRole('button', { name: 'Accept' }).click();
    await page.getByText('all 4 claims held').waitFor();
    await page
      .getByText(/resolved as Duplicate of Bug #4301/)
      .first()
      .waitFor();
    expect(errors).toEqual([]);
  });

  it('plays the other three stories to their end', async () => {
    const { page, errors } = opened;
    for (const name of ['A cart', 'A notebook', 'A client killed']) {
      await page.getByRole('button', { name: new RegExp(`^Play ?: ${name}`) }).click();
      const story = page
        .getByRole('listitem')
        .filter({ has: page.getByRole('heading', { name: new RegExp(`^${name}`) }) });
      await story.getByText(/all \d claims held/).waitFor();
    }
    expect(errors).toEqual([]);
  });
});
