import { type RedisClient, redisStore } from 'mcp-valise/store/redis';
import { expect, it } from 'vitest';

/** A client as ioredis makes them, whose server answers what it is told to. */
function answering(answer: (command: string) => unknown): { client: RedisClient; sent: string[] } {
  const sent: string[] = [];
  const client = {
    status: 'ready',
    on: () => {},
    off: () => {},
    call: async (command: string) => {
      sent.push(command);
      const given = answer(command);
      if (given instanceof Error) throw given;
      return given;
    },
  };
  return { client: client as unknown as RedisClient, sent };
}

const replyError = (message: string): Error => Object.assign(new Error(message), { name: 'ReplyError' });

it.each([
  [
    'a server that is part of a Cluster',
    'MOVED 2531 127.0.0.1:7001',
    { code: 'store-failed', outcome: 'not-done', next: expect.stringContaining('redis+cluster://') },
  ],
  [
    'a server that cannot save to its disk',
    'MISCONF Redis is configured to save RDB snapshots, but it is currently unable to persist to disk.',
    { code: 'store-read-only', outcome: 'not-done', next: expect.stringContaining('check its disk') },
  ],
  [
    'a Cluster that wraps the answer of one of its servers',
    'Too many Cluster redirections. Last error: ReplyError: MISCONF Errors writing to the AOF file',
    { code: 'store-read-only', outcome: 'not-done' },
  ],
  [
    'a replica',
    "READONLY You can't write against a read only replica.",
    { code: 'store-read-only', outcome: 'not-done' },
  ],
])('The Redis store reports the answer of %s, and that nothing was written', async (_, words, expected) => {
  const { client } = answering((command) => (command === 'evalsha' ? replyError(words) : null));
  const store = await redisStore(client, { timeout: 0.2 });
  await expect(store.put('a', 1)).rejects.toMatchObject(expected);
});

it.each([
  'NOSCRIPT No matching script. Please use EVAL.',
  'Too many Cluster redirections. Last error: ReplyError: NOSCRIPT No matching script. Please use EVAL.',
])('The Redis store sends the text of a script to a server that says "%s"', async (words) => {
  const { client, sent } = answering((command) =>
    command === 'evalsha' ? replyError(words) : command === 'eval' ? 1 : null,
  );
  const store = await redisStore(client, { timeout: 0.2 });
  expect(await store.put('a', 1)).toEqual(expect.any(String));
  expect(sent).toEqual(expect.arrayContaining(['evalsha', 'eval']));
});
