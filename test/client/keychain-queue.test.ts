import { existsSync, readdirSync } from 'node:fs';
import { afterAll, expect, it, vi } from 'vitest';
import { inLine } from '../../src/client/oauth/keychain.ts';
import { temporaryFolder } from '../store/places.ts';

const { folder, remove } = temporaryFolder();
vi.stubEnv('HOME', folder);
afterAll(() => {
  vi.unstubAllEnvs();
  remove();
});

it('Reading a keychain that was never written to creates no folder', async () => {
  await inLine(async () => 'found', { looks: true });
  expect(existsSync(`${folder}/.valise`)).toBe(false);
});

it('The keychain queue runs one operation at a time and continues after a failed one', async () => {
  let under = 0;
  const work = async (index: number) => {
    expect(++under).toBe(1);
    await new Promise((resolve) => setImmediate(resolve));
    under--;
    if (index === 3) throw new Error('no such item');
    return index;
  };
  const done = await Promise.allSettled(Array.from({ length: 8 }, (_, index) => inLine(() => work(index))));
  expect(done.map(({ status }) => status === 'fulfilled')).toEqual([
    true,
    true,
    true,
    false,
    true,
    true,
    true,
    true,
  ]);
  await expect(
    inLine(() => {
      throw new Error('at once');
    }),
  ).rejects.toThrow('at once');
  expect(await inLine(async () => 'after')).toBe('after');
});

it('The keychain queue starts nothing while an operation hangs, and continues once it has returned', async () => {
  const begun: string[] = [];
  let answer: () => void = () => {};
  const hanging = inLine(
    () => {
      begun.push('hanging');
      return new Promise<void>((resolve) => {
        answer = resolve;
      });
    },
    { patience: 0.05 },
  );
  const next = inLine(async () => begun.push('next'));
  await expect(hanging).rejects.toThrow('it gave no answer within 0.05 s');
  await expect(next).rejects.toThrow('has not answered');
  expect(begun).toEqual(['hanging']);
  answer();
  await new Promise((resolve) => setImmediate(resolve));
  expect(await inLine(async () => 'again')).toBe('again');
  expect(readdirSync(`${folder}/.valise`)).toEqual([]);
});
