import { memoryStore } from 'mcp-valise/store';
import { afterEach, describe, expect, it } from 'vitest';
import { endAll, serve, stock, WAYS } from './carriers-world.ts';

afterEach(endAll);

/** The link that a result shows, which stands alone on its line. */
const linkIn = (text: string) => new URL(/^http\S+$/m.exec(text)?.[0] ?? 'missing:');
const post = (url: URL, form: Record<string, string>) =>
  fetch(url, { method: 'POST', body: new URLSearchParams(form) });
const accept = { 'valise-action': 'accept' };

describe.each(WAYS)('a question to a client that cannot be asked ($way)', (way) => {
  it('a question to a client that cannot be asked is answered once on a page, and the repeated call continues on any instance', async () => {
    const store = memoryStore();
    const [one, two] = [await serve(way, { store }), await serve(way, { store })];
    const client = await stock(way, one.url);
    const asked = await client.call('greet', { greeting: 'hi' });
    expect(asked.text).toMatch(/^The user has to answer a question first: "What is your name\?"\n/);
    expect(asked.text).toContain('call "greet" again with the same arguments');
    const link = linkIn(asked.text);
    expect(link.origin).toBe(one.url.origin);
    const state_handle = asked.handle ?? null;
    expect(asked.handle !== undefined).toBe(way.client === 'v2');
    // Nobody has answered yet: the same link again.
    expect(linkIn((await client.call('greet', { greeting: 'hi', state_handle })).text).href).toBe(link.href);

    link.port = two.url.port;
    const page = await fetch(link);
    expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('What is your name?')]);
    const short = await post(link, { ...accept, f0: 'A' });
    expect([short.status, await short.text()]).toEqual([
      422,
      expect.stringContaining('at least 2 characters'),
    ]);
    expect((await post(link, { ...accept, f0: 'Ada' })).status).toBe(200);
    expect([(await fetch(link)).status, (await post(link, { ...accept, f0: 'Eve' })).status]).toEqual([
      410, 410,
    ]);
    expect(two.rejected.join()).toBe('');

    const next = await client.call('greet', { greeting: 'hi', state_handle });
    const second = linkIn(next.text);
    expect(second.href).not.toBe(link.href);
    expect((await post(second, { ...accept, f0: 'M' })).status).toBe(200);
    expect((await client.call('greet', { greeting: 'hi', state_handle })).text).toMatch(/^hi=Ada,M/);
    expect((await fetch(second)).status).toBe(404);
    // The flow is over: the next call is another one.
    expect((await client.call('greet', { greeting: 'hi', state_handle })).text).toContain(
      'What is your name?',
    );
  });

  it('an identified user finds the pending question again from another connection', async () => {
    const { url } = await serve(way, { store: memoryStore() });
    const ann = { 'x-user': 'ann' };
    const asked = await (await stock(way, url, ann)).call('erase');
    expect(asked.text).not.toContain('handle');
    await post(linkIn(asked.text), accept);
    expect((await (await stock(way, url, { 'x-user': 'bob' })).call('erase')).text).toContain('http');
    expect((await (await stock(way, url, ann)).call('erase')).text).toBe('true');
  });

  it('a question that the user declines on the page is declined', async () => {
    const { url } = await serve(way, { store: memoryStore() });
    const client = await stock(way, url, { 'x-user': 'ann' });
    await post(linkIn((await client.call('erase')).text), { 'valise-action': 'decline' });
    expect((await client.call('erase')).result.structuredContent).toMatchObject({ erased: false });
    await post(linkIn((await client.call('greet')).text), { 'valise-action': 'decline' });
    expect((await client.call('greet')).text).toContain('declined');
  });

  it('a question is an error with fallback: error, or if its answer could not be found again', async () => {
    for (const flows of [{ fallback: 'error' as const }, {}]) {
      const store = 'fallback' in flows ? memoryStore() : undefined;
      const { url } = await serve(way, { store, flows, sessions: {} });
      const client = await stock(way, url);
      const said = await client.call('greet').then(
        ({ text }) => text,
        (error: unknown) => String(error),
      );
      expect(said).toMatch(/capability elicitation|capability: elicitation/);
    }
  });

  it('a client that can be asked is asked over the connection', async () => {
    const { url } = await serve(way, { store: memoryStore() });
    const client = await stock(way, url, {}, { elicitation: { form: {} } });
    // The client declares the capability and has no handler, so that it answers with an error.
    const said = await client.call('greet').then(
      ({ text }) => text,
      (error: unknown) => String(error),
    );
    expect(said).not.toContain('http');
  });

  it('the model may pass a question on with fallback: tool, but never one for consent', async () => {
    const { url, rejected } = await serve(way, { store: memoryStore(), flows: { fallback: 'tool' } });
    const client = await stock(way, url, { 'x-user': 'ann' });
    expect((await client.tools()).at(-1)?.name).toBe('answer_question');
    const id = (text: string) => /question "([\w-]+)"/.exec(text)?.[1];
    const asked = await client.call('greet');
    expect(asked.text).toMatch(/^Ask the user: "What is your name\?" Then call answer_question/);
    const answer = (question: string | undefined, words: string) =>
      client.call('answer_question', { question, answer: words });
    expect((await answer(id(asked.text), 'A')).text).toMatch(/does not fit.*at least 2/);
    expect((await answer(id(asked.text), 'Ada')).text).toMatch(/^Noted/);
    expect((await answer(id(asked.text), 'Eve')).result.isError).toBe(true);
    const next = await client.call('greet');
    expect(next.text).toContain('"S" or "M"');
    await answer(id(next.text), '{"size":"S"}');
    expect((await client.call('greet')).text).toBe('hello=Ada,S');

    const consent = await client.call('erase');
    const link = linkIn(consent.text);
    expect((await answer(link.searchParams.get('valise-question') ?? '', 'yes')).text).toMatch(
      /Only the user/,
    );
    expect(rejected).toEqual(['an answer of the model: consent']);
    await post(link, accept);
    expect((await client.call('erase')).text).toBe('true');
  });

  it('a question that is marked as secret is never answered with the tool', async () => {
    const { url, rejected } = await serve(way, { store: memoryStore(), flows: { fallback: 'tool' } });
    const client = await stock(way, url, { 'x-user': 'ann' });
    const link = linkIn((await client.call('unlock')).text);
    const question = link.searchParams.get('valise-question');
    const refused = await client.call('answer_question', { question, answer: '1234' });
    expect([refused.text, refused.result.isError]).toEqual([expect.stringMatching(/Only the user/), true]);
    expect(rejected).toEqual(['an answer of the model: secret']);
    // What did not fit is not shown again.
    const short = await post(link, { ...accept, f0: 'hi!' });
    expect([short.status, (await short.text()).includes('hi!')]).toEqual([422, false]);
    await post(link, { ...accept, f0: '1234' });
    expect((await client.call('unlock')).text).toBe('unlocked with 4 characters');
  });

  it('a user cannot answer the question of another user with the tool', async () => {
    const { url } = await serve(way, { store: memoryStore(), flows: { fallback: 'tool' } });
    const [ann, bob] = [
      await stock(way, url, { 'x-user': 'ann' }),
      await stock(way, url, { 'x-user': 'bob' }),
    ];
    const question = /question "([\w-]+)"/.exec((await ann.call('greet')).text)?.[1];
    expect((await bob.call('answer_question', { question, answer: 'Eve' })).result.isError).toBe(true);
  });
});

describe('the page of a question', () => {
  const open = async (tool = 'erase') => {
    const way = WAYS[2];
    const world = await serve(way, { store: memoryStore() });
    const client = await stock(way, world.url, { 'x-user': 'ann' });
    return { ...world, client, link: linkIn((await client.call(tool)).text) };
  };

  it('the page of a question runs no script, loads nothing, hides its address, and escapes texts', async () => {
    const { link } = await open();
    const response = await fetch(link);
    const html = await response.text();
    expect(response.headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; style-src 'sha256-[^']+'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'$/,
    );
    expect(response.headers.get('referrer-policy')).toBe('no-referrer');
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(html).not.toMatch(/<everything>|<script|https?:/);
    expect(html).toContain('&#60;everything&#62;');
  });

  it('programs that fetch links do not use up the page of a question, and the page refuses a large form', async () => {
    const { link, client } = await open();
    for (const method of ['GET', 'HEAD', 'GET']) expect((await fetch(link, { method })).status).toBe(200);
    expect((await fetch(link, { method: 'PUT', body: '' })).status).toBe(405);
    expect((await post(link, { ...accept, f0: 'x'.repeat(100_000) })).status).toBe(413);
    expect((await post(link, accept)).status).toBe(200);
    expect((await client.call('erase')).text).toBe('true');
  });

  it('the page of a question takes one of many simultaneous answers', async () => {
    const { link } = await open();
    const all = await Promise.all(Array.from({ length: 8 }, () => post(link, accept)));
    expect(all.map(({ status }) => status).sort()).toEqual([200, ...Array(7).fill(410)]);
  });

  it('the page of a question is unknown without its secret, and an event reports the attempt', async () => {
    const { link, rejected } = await open();
    link.searchParams.set('valise-question', 'AAAAAAAAAAAAAAAAAAAAAA');
    expect([(await fetch(link)).status, (await post(link, accept)).status]).toEqual([404, 404]);
    expect(rejected).toEqual(Array(2).fill('the page of a question: unknown'));
  });
});
