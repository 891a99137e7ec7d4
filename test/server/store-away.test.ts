import { createValise } from 'mcp-valise/server';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { noServices, type Service, startPostgres, startRedis } from '../services.ts';
import { because } from '../skip.ts';
import { call, endServers, FORMS, initialize, listen, post } from './http-stage.ts';

const services: Service[] = [];
afterEach(endServers);
afterAll(() => Promise.all(services.map((service) => service.stop())));

describe.skipIf(noServices).each([
  ['Redis', startRedis],
  ['PostgreSQL', startPostgres],
] as const)('an outage of %s', because('needs servers'), (_, start) => {
  it('only the first calls of an outage wait as long as the driver does, and all calls work once the store is back', {
    timeout: 120_000,
  }, async () => {
    const service = await start();
    services.push(service);
    const valise = createValise({ name: 'test', store: service.url, sessions: { mode: 'stored' } });
    const url = await listen(FORMS['v2, web standard']!(valise));
    const session = { 'mcp-session-id': (await post(url, initialize({}))).headers.get('mcp-session-id')! };
    const count = async (): Promise<string | number> => {
      const { message } = await post(url, call('count'), session);
      return message.error?.code ?? message.result.content[0].text;
    };
    const timed = async (method: string) => {
      const begun = performance.now();
      const { message } = await post(url, { jsonrpc: '2.0', id: 1, method }, session);
      return { message, ms: performance.now() - begun };
    };
    expect(await count()).toBe('1');

    await service.halt();
    const first = await timed('ping');
    const later = [await timed('ping'), await timed('ping')];
    for (const { message } of [first, ...later]) expect(message.result).toEqual({});
    for (const { ms } of later) expect(ms).toBeLessThan(first.ms / 3);
    expect((await post(url, call('plain'), session)).message.result.content[0].text).toBe('plain');
    expect(await count()).toBe(-32603);

    await service.start();
    await expect.poll(count, { timeout: 30_000 }).toBe('2');
    expect(await count()).toBe('3');
    await valise.close();
  });
});
