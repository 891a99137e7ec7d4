import { describe, expect, it } from 'vitest';
import type { Request } from '../../src/wire/index.ts';
import { ASKING, cancelled, olderHostAsked } from './era-bridge.ts';

describe('valise connect and a call that an older host takes back, at a newer server', () => {
  it('is over where the host is asked in it: the question is taken back, and nothing sent', async () => {
    const { host, sent, cancel, reply, question } = await olderHostAsked();
    sent.length = host.length = 0;
    await cancel(1);
    expect(host).toEqual([cancelled(question.id)]);
    await reply(question.id);
    expect(sent).toEqual([]);
    expect(host).toHaveLength(1);
  });

  it('is taken back under the id that the server knows', async () => {
    const { host, sent, cancel, reply, answer, question } = await olderHostAsked();
    await reply(question.id);
    const again = sent.at(-1) as Request;
    sent.length = host.length = 0;
    await cancel(1);
    expect(sent).toEqual([cancelled(again.id)]);
    // The server may have asked before it heard of it.
    await answer('asks', ASKING);
    expect(host).toEqual([]);
  });
});
