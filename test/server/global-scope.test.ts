import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { tsx } from '../store/places.ts';
import { keys } from './carriers-world.ts';

const PROGRAM = `
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
const { createValise } = await import('./src/server/index.ts');
const { memoryStore } = await import('./src/store/index.ts');
const { upstashStore } = await import('./src/store/upstash/store.ts');
const refuse = (name) => () => { throw new Error('Disallowed operation called within global scope: ' + name); };
for (const name of ['randomBytes', 'randomUUID', 'randomFillSync', 'randomInt']) crypto[name] = refuse(name);
globalThis.crypto.getRandomValues = refuse('getRandomValues');
globalThis.crypto.randomUUID = refuse('crypto.randomUUID');
syncBuiltinESMExports();
for (const name of ['setTimeout', 'setInterval', 'setImmediate', 'fetch']) globalThis[name] = refuse(name);
for (const store of [undefined, memoryStore(), upstashStore({ url: 'https://example.com', token: 't' })]) {
  const valise = createValise({ name: 'test', keys: '${keys}', store, sessions: {}, jar: {}, flows: {} });
  valise.flow(async () => ({ content: [] }));
  valise.http(async () => new Response());
  valise.factory(() => { throw new Error('not called'); });
}
console.log('created');
`;

it('a server can be created in the global scope of a Worker, which forbids random values, timers and requests', () => {
  const { stdout, stderr } = spawnSync(process.execPath, [...tsx, '--input-type=module', '-e', PROGRAM], {
    encoding: 'utf8',
  });
  expect(stdout, stderr).toContain('created');
});
