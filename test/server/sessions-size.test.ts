import { memoryStore } from 'mcp-valise/store';
import { describe, expect, it } from 'vitest';
import { resultOf, textOf } from './raw-client.ts';
import { behindEdge, connect, type Does, errorOf, makeServer, STAGES } from './sessions-tool.ts';

const fill: Does = (session, { size, key, letter = 'x' }) => {
  if (size !== undefined) session?.set((key as string) ?? 'text', (letter as string).repeat(size as number));
  return session?.get<string>('text')?.length ?? 0;
};

describe.each(STAGES)('values in a session, on $stage', (at) => {
  it('set refuses a value that JSON would change, and names the path', async () => {
    const { valise } = makeServer((session) => session?.set('cart', { prices: [1, Number.NaN] }));
    const client = await connect(valise, at);
    const result = resultOf(await client.in(await client.create()));
    expect(textOf(result)).toContain('The value for "cart" is not JSON: prices[1] is NaN.');
  });
});

describe.each(STAGES)('large state of sealed sessions, on $stage', (at) => {
  const { code } = at;

  it('[S-32] large sealed state stays in the store, and only a reference travels', async () => {
    const store = memoryStore();
    const { valise } = makeServer(fill, { store });
    const client = await connect(valise, at);
    let { session, value } = await client.use(await client.create(), { size: 2000 });
    expect([value, session.state!.length > 2000]).toEqual([2000, true]);
    ({ session, value } = await client.use(session, { size: 20_000 }));
    expect(value).toBe(20_000);
    expect(session.state!.length).toBeLessThan(1000);
    expect((await client.use(session)).value).toBe(20_000);
    // Another instance finds it too; one without the store, or a client that swaps references, does not.
    const other = await connect(makeServer(fill, { store }).valise, at);
    expect((await other.use(session)).value).toBe(20_000);
    const second = (await client.use(await client.create(), { size: 30_000 })).session;
    expect(errorOf(await client.in({ ...session, state: second.state as string })).code).toBe(code.notFound);
    const alone = await connect(makeServer(fill).valise, at);
    expect(errorOf(await alone.in(session)).code).toBe(code.notFound);
  });

  it('[S-32] spillAbove decides which state is large', async () => {
    const { valise } = makeServer(fill, { store: memoryStore(), sessions: { spillAbove: 50_000 } });
    const client = await connect(valise, at);
    const { session } = await client.use(await client.create(), { size: 20_000 });
    expect(session.state!.length).toBeGreaterThan(20_000);
  });

  it('[S-32] large state travels if there is no store, and a warning states its size from 4 KB on', async () => {
    const warnings: string[] = [];
    const { valise } = makeServer(fill, { events: { warning: ({ what }) => warnings.push(what) } });
    const client = await connect(valise, at);
    let { session } = await client.use(await client.create(), { size: 2000 });
    expect(warnings).toEqual([]);
    ({ session } = await client.use(session, { size: 5000 }));
    expect(warnings.join()).toMatch(/takes \d{4} bytes.*every request/);
    expect((await client.use(session)).value).toBe(5000);
  });
});

describe.each(STAGES)('the size of default sessions, on $stage', (at) => {
  const TOO_LARGE = { code: -32603, data: { code: 'too-large' } };
  const filled = (args: object) => ({ name: 'work', arguments: args });

  it('maxState limits the default session of a connection', async () => {
    const { valise } = makeServer(fill, { sessions: { maxState: 10_000 } });
    const client = await connect(valise, at, {});
    const use = (args: object) => client.request('tools/call', filled(args));
    expect(textOf(resultOf(await use({ size: 6000 })))).toBe('6000');
    expect(errorOf(await use({ size: 6000, key: 'more' }))).toMatchObject(TOO_LARGE);
    expect(textOf(resultOf(await use({})))).toBe('6000');
  });

  it('maxState limits a default session in the store from the first call on', async () => {
    const twice: Does = (session, { size }) => {
      if (size !== undefined)
        for (const key of ['text', 'more']) session?.set(key, 'x'.repeat(size as number));
      return session?.get<string>('text')?.length ?? 0;
    };
    const { valise } = makeServer(twice, { store: memoryStore(), sessions: { maxState: 10_000 } });
    const client = await connect(valise, at, {}, { http: true });
    const use = (args: object) =>
      behindEdge(valise, `size ${at.stage}`, () => client.request('tools/call', filled(args)));
    expect(errorOf(await use({ size: 6000 }))).toMatchObject(TOO_LARGE);
    expect(textOf(resultOf(await use({ size: 4000 })))).toBe('4000');
    expect(errorOf(await use({ size: 6000 }))).toMatchObject(TOO_LARGE);
    expect(textOf(resultOf(await use({})))).toBe('4000');
  });
});

const MATRIX = STAGES.flatMap((at) =>
  (['sealed', 'stored'] as const).map((mode) => ({ at, stage: at.stage, mode })),
);

describe.each(MATRIX)('the size of $mode state, on $stage', ({ at, mode }) => {
  it('state above maxState is refused before anything is saved', async () => {
    const { valise } = makeServer(fill, { store: memoryStore(), sessions: { mode, maxState: 10_000 } });
    const client = await connect(valise, at);
    const session = await client.create();
    const one = resultOf(await client.in(session, 'work', { size: 10_001 }));
    expect(one['isError']).toBe(true);
    expect(textOf(one)).toMatch(/would take 10003 bytes; 10000 is the most/);
    let used = (await client.use(session, { size: 6000 })).session;
    expect(errorOf(await client.in(used, 'work', { size: 6000, key: 'more' }))).toMatchObject({
      code: -32603,
      data: { code: 'too-large' },
    });
    used = (await client.use(used)).session;
    expect((await client.use(used)).value).toBe(6000);
  });

  it('state above maxState that onCreate sets is refused, and onEnd is called', async () => {
    const ends: string[] = [];
    const { valise } = makeServer(fill, {
      store: memoryStore(),
      sessions: {
        mode,
        maxState: 10_000,
        onCreate(session) {
          for (const key of ['text', 'more']) session.set(key, 'x'.repeat(6000));
        },
        onEnd: ({ reason }) => void ends.push(reason),
      },
    });
    const client = await connect(valise, at);
    expect(errorOf(await client.request(at.method.create, {}))).toMatchObject({
      code: -32603,
      data: { code: 'too-large' },
    });
    expect(ends).toEqual(['revoked']);
    await valise.close();
  });

  it('the size of state is counted in bytes, not in characters', async () => {
    const { valise } = makeServer(fill, { store: memoryStore(), sessions: { mode, maxState: 10_000 } });
    const client = await connect(valise, at);
    const session = await client.create();
    const one = resultOf(await client.in(session, 'work', { size: 4000, letter: '語' }));
    expect(textOf(one)).toMatch(/would take 12002 bytes; 10000 is the most/);
    const used = (await client.use(session, { size: 2000, letter: '語' })).session;
    expect(errorOf(await client.in(used, 'work', { size: 2000, letter: '語', key: 'more' }))).toMatchObject({
      code: -32603,
      data: { code: 'too-large' },
    });
  });

  it.each([
    ['a circular value', 'circle'],
    ['a function', 'function'],
    ['a value that is nested too deeply', 'deep'],
    ['an empty key', 'key'],
  ])('a session refuses %s', async (_, what) => {
    const { valise } = makeServer(
      (session) => {
        const circle: unknown[] = [];
        circle.push(circle);
        let deep: unknown = 1;
        for (let n = 0; n < 100; n++) deep = [deep];
        const values: Record<string, unknown> = { circle, deep, function: () => 1 };
        session?.set(what === 'key' ? '' : 'value', (values[what] ?? 1) as never);
      },
      { store: memoryStore(), sessions: { mode } },
    );
    const client = await connect(valise, at);
    const session = await client.create();
    const result = resultOf(await client.in(session));
    expect(result['isError']).toBe(true);
    expect(at.sessionIn(result)).toMatchObject({ sessionId: session.sessionId });
  });
});
