import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { UnderWay } from '../../src/link/under-way.ts';
import type { Id } from '../../src/wire/index.ts';

const sorted = (values: Iterable<number>) => [...values].sort((a, b) => a - b);

describe('what is under way', () => {
  it('is found by its id as in a map, few or many', () => {
    const ids: Id[] = Array.from({ length: 48 }, (_, at) => (at % 3 === 0 ? String(at) : at));
    const step = fc.record({
      does: fc.constantFrom('set', 'set', 'take', 'get'),
      id: fc.constantFrom(...ids),
      value: fc.integer(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 400, size: 'max' }), (steps) => {
        const model = new Map<Id, number>();
        const under = new UnderWay<number>();
        for (const { does, id, value } of steps) {
          if (does === 'set') {
            model.set(id, value);
            under.set(id, value);
          } else if (does === 'get') expect(under.get(id)).toBe(model.get(id));
          else {
            expect(under.take(id)).toBe(model.get(id));
            model.delete(id);
          }
          expect(under.size).toBe(model.size);
        }
        expect(sorted(under.values())).toEqual(sorted(model.values()));
      }),
      { numRuns: 60 },
    );
  });

  it('tells a number from the text of the same digits', () => {
    const under = new UnderWay<string>();
    under.set(1, 'number');
    under.set('1', 'text');
    expect([under.get(1), under.take('1'), under.get('1'), under.take(1)]).toEqual([
      'number',
      'text',
      undefined,
      'number',
    ]);
  });

  it.each([3, 100])('is empty once cleared, with %i in it', (count) => {
    const under = new UnderWay<number>();
    for (let id = 0; id < count; id++) under.set(id, id);
    under.clear();
    expect([under.size, under.get(0), under.values()]).toEqual([0, undefined, []]);
    under.set(0, 7);
    expect(under.take(0)).toBe(7);
  });
});
