import { expect, it } from 'vitest';
import { Course } from '../../src/link/course.ts';

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

it('goes along with its course, each value apart, and ends with it', async () => {
  const one = new Course<string>();
  const two = new Course<number>();
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
