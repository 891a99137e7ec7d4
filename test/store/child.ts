// A small program for tests that need another user, a small disk or another Node: does the steps it is given to a store, one after another,
// and prints what came of each as a line of JSON.
import { chmodSync, closeSync, existsSync, openSync, readFileSync, writeSync } from 'node:fs';
import { openStore } from '../../src/store/index.ts';
import type { Store } from '../../src/store/types.ts';

type Step =
  | readonly ['open', string, { keys?: string }?]
  | readonly ['put', string, number]
  | readonly ['get', string]
  | readonly ['chmod', string, number]
  | readonly ['write-until', string]
  | readonly ['fill', number]
  | readonly ['exhaust', string]
  | readonly ['empty']
  | readonly ['close'];

let store: Store | undefined;
let filled = 0;
for (const step of JSON.parse(process.argv[2] ?? readFileSync(0, 'utf8')) as Step[]) {
  try {
    process.stdout.write(`${JSON.stringify({ did: step[0], result: (await perform(step)) ?? null })}\n`);
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    process.stdout.write(`${JSON.stringify({ did: step[0], code, message })}\n`);
  }
}
await store?.close();

/** Values are told by their length, and made of one letter. */
async function perform(step: Step): Promise<unknown> {
  switch (step[0]) {
    case 'open':
      store = await openStore(step[1], step[2]);
      return 'open';
    case 'put':
      return typeof (await store?.put(step[1], 'x'.repeat(step[2])));
    case 'get':
      return ((await store?.get(step[1]))?.value as string | undefined)?.length;
    case 'chmod':
      chmodSync(step[1], step[2]);
      return 'changed';
    case 'write-until':
      while (!existsSync(step[1])) await store?.put('written', Date.now());
      return 'there';
    case 'fill':
      for (;;) {
        try {
          await store?.put(`fill/${filled}`, 'x'.repeat(step[1]), { ttl: 3600 });
        } catch (error) {
          return (error as { code?: string }).code;
        }
        filled++;
      }
    case 'exhaust':
      return exhaust(step[1]);
    case 'empty': {
      let deleted = 0;
      for (let n = 0; n < filled; n++) if (await store?.delete(`fill/${n}`)) deleted++;
      return deleted === filled && deleted > 0;
    }
    case 'close':
      await store?.close();
      store = undefined;
      return 'closed';
  }
}

/** Takes what room is left on a disk. */
function exhaust(path: string): unknown {
  const fd = openSync(path, 'w');
  try {
    for (;;) writeSync(fd, Buffer.alloc(4096, 1));
  } catch (error) {
    return (error as { code?: string }).code;
  } finally {
    closeSync(fd);
  }
}
