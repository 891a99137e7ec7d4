import { type ClientValise, openValise } from 'mcp-valise/client';
import { createValise } from 'mcp-valise/server';
import { memoryStore } from 'mcp-valise/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connect, type Hosts, KINDS, openHosts, setting } from './hosts.ts';

interface Warning extends Error {
  readonly code?: string;
  readonly detail?: string;
}

let hosts: Hosts;
let valise: ClientValise;
let warnings: Warning[];
const warned = (warning: Warning) => void warnings.push(warning);
beforeEach(async () => {
  hosts = await openHosts();
  valise = await openValise({ store: memoryStore() });
  warnings = [];
  process.on('warning', warned);
});
afterEach(async () => {
  process.off('warning', warned);
  await valise.close();
  await hosts.close();
});

describe.each(KINDS)('a listener that throws, on $kind', (kind) => {
  const failing = {
    throws: () => {
      throw new Error('my own mistake');
    },
    'rejects later': async () => {
      throw new Error('my own mistake');
    },
  };

  it.each(Object.entries(failing))(
    'If a listener %s, the call continues and other listeners are called',
    async (_, listener) => {
      const heard: string[] = [];
      valise.jar.on('set', listener);
      valise.jar.on('set', ({ key }) => heard.push(key));
      hosts.respond = ({ method }) =>
        method === 'tools/call' ? setting(kind.era, { server: { a: 1, b: 2 } }) : {};
      const client = await connect(valise, hosts, 'https://shop.example.com', kind);
      expect(await client.callTool({ name: 'set' })).toMatchObject({ content: [{ text: 'done' }] });
      expect(heard).toEqual(['a', 'b']);
      expect(valise.jar.list()).toHaveLength(2);
      await expect.poll(() => warnings).toHaveLength(1);
      expect(warnings).toMatchObject([
        {
          name: 'ValiseWarning',
          code: 'listener-threw',
          message: expect.stringContaining('my own mistake'),
          detail: expect.stringContaining('listeners.test.ts'),
        },
      ]);
      await client.close();
    },
  );
});

it('A listener that is not a function is rejected', () => {
  const refused = expect.objectContaining({ code: 'invalid-argument' });
  expect(() => valise.jar.on('set', undefined as never)).toThrow(refused);
  expect(() => valise.on('warning', {} as never)).toThrow(refused);
  expect(() => createValise({ name: 'shop', events: { warning: 'log' as never } })).toThrow(refused);
});
