import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { call, flowPeer, modernCall, name, ours, text } from './flow-peer.ts';
import { MAJORS } from './majors.ts';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;

describe.each(MAJORS)('an SDK $major server', (major) => {
  it.each([
    ['2026-07-28', () => modernCall(), ours()],
    ['the top-level state', () => call(), ours('state')],
    ['the draft form', () => call(), ours('dependent-shared')],
  ] as const)(
    '[R-12] a server holds nothing in memory for calls that wait for an answer (%s)',
    async (_, make, capabilities) => {
      const held: WeakRef<object>[] = [];
      const peer = await flowPeer(
        major,
        async (_args, flow) => {
          const work = { big: new Array(1000).fill(0) };
          held.push(new WeakRef(work));
          const answer = await flow.ask('a', name);
          return text(String(answer.name) + work.big.length);
        },
        { capabilities },
      );
      for (let at = 0; at < 50; at++) await peer.say(make());
      await expect
        .poll(
          () => {
            gc();
            return held.filter((reference) => reference.deref()).length;
          },
          { timeout: 10_000 },
        )
        .toBeLessThanOrEqual(1);
      await peer.close();
    },
  );
});
