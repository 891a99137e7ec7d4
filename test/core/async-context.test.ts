import { expect, it } from 'vitest';
import { AsyncVariable } from '../../src/core/async-context.ts';

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

it('An async context follows its asynchronous calls, keeps values separate, and ends with them', async () => {
  const one = new AsyncVariable<string>();
  const two = new AsyncVariable<number>();
  const seen = () => [one.current, two.current];
  const inner = await one.run('a', async () => {
    await turn();
    const both = two.run(1, async () => {
      await turn();
      return seen();
    });
    const other = one.run('b', async () => {
      await turn();
      return seen();
    });
    return [await both, await other, seen(), one.run(undefined, seen)];
  });
  expect(inner).toEqual([
    ['a', 1],
    ['b', undefined],
    ['a', undefined],
    [undefined, undefined],
  ]);
  expect(seen()).toEqual([undefined, undefined]);
});
