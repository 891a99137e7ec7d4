import { expect, it } from 'vitest';
import { GivenSeals } from '../../src/server/sessions/given-seals.ts';

it('believes only the last seal of a session, from the one it was given to', () => {
  const given = new GivenSeals();
  given.add('a', 'ada', 'seal-1');
  given.add('b', undefined, 'seal-2');
  expect(given.has('a', 'ada', 'seal-1')).toBe(true);
  expect(given.has('b', undefined, 'seal-2')).toBe(true);
  expect(given.has('a', 'eve', 'seal-1')).toBe(false);
  expect(given.has('a', undefined, 'seal-1')).toBe(false);
  expect(given.has('b', undefined, 'seal-1')).toBe(false);
  given.add('a', 'ada', 'seal-3');
  expect(given.has('a', 'ada', 'seal-1')).toBe(false);
  expect(given.has('a', 'ada', 'seal-3')).toBe(true);
});

it('forgets the oldest rather than grow without end', () => {
  const given = new GivenSeals();
  given.add('first', undefined, 'seal');
  for (let at = 0; at < 8192; at++) given.add(`session-${at}`, undefined, `seal-${at}`);
  expect(given.has('first', undefined, 'seal')).toBe(false);
  expect(given.has('session-8191', undefined, 'seal-8191')).toBe(true);
  expect(given.has('session-5000', undefined, 'seal-5000')).toBe(true);
});
