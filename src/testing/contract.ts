import type { Case, ContractOptions, Count, Place, Runner } from './contract-case.ts';
import { contentionCases, entryCases, lifeCases } from './contract-entries.ts';
import { crashCases, lostReplyCases } from './contract-failures.ts';
import { leaseCases } from './contract-leases.ts';
import { listCases } from './contract-lists.ts';

/**
 * Defines the contract of {@link Store} as a test suite, which every driver of Valise passes and yours can use. It
 * works with any runner that has `describe` and `it`, and asserts with `node:assert`.
 *
 * `place` creates a new, empty storage location; each case gets its own. Cases that need other processes start Node,
 * import `place().process.module` there, and call the exported function (`openStore`, or the name in `export`) with
 * `args`.
 *
 * @example
 * ```ts
 * import { describe, it } from 'node:test';
 * import { storeContract } from 'mcp-valise/testing';
 * import { openStore } from '../store/my-store.js';
 *
 * storeContract(
 *   async () => {
 *     const folder = await mkdtemp(join(tmpdir(), 'my-store-'));
 *     return {
 *       open: () => openStore(folder),
 *       process: { module: new URL('./my-store.js', import.meta.url), args: [folder] },
 *       remove: () => rm(folder, { recursive: true }),
 *     };
 *   },
 *   { describe, it },
 *   { name: 'my store' },
 * );
 * ```
 */
export function storeContract(
  place: () => Place | Promise<Place>,
  { describe, it }: Runner,
  options: ContractOptions = {},
): void {
  const {
    name = 'a store',
    reopens = true,
    processes = true,
    restarts = false,
    losesReplies = false,
    scale = 1,
  } = options;
  const count: Count = (full, least = 1) => Math.max(least, Math.round(full * scale));
  const told = (full: number, least?: number) => count(full, least).toLocaleString('en');
  const groups: readonly (readonly [string, readonly Case[]])[] = [
    ['entries', entryCases],
    ['compare-and-set under contention', contentionCases],
    ['lists', listCases],
    ['leases', leaseCases],
    ['opening and closing', lifeCases],
    ['crashes', crashCases],
    ['lost replies', lostReplyCases],
  ];
  const able = { reopens, processes, restarts, losesReplies };
  describe(`${name} keeps the contract of a store`, () => {
    for (const [group, cases] of groups) {
      const fitting = cases.filter(({ needs }) => needs === undefined || able[needs]);
      if (fitting.length === 0) continue;
      describe(group, () => {
        for (const { title, run } of fitting) {
          const words = typeof title === 'string' ? title : title(told);
          it(words, () => inPlace(place, options, count, run), 120_000 * Math.max(1, scale));
        }
      });
    }
  });
}

async function inPlace(
  make: () => Place | Promise<Place>,
  options: ContractOptions,
  count: Count,
  run: Case['run'],
): Promise<void> {
  const place = await make();
  const opened: { close(): Promise<void> }[] = [];
  const { maxKeyBytes = 1024, maxValueBytes = 1_000_000, execArgv = [], reopens = true } = options;
  try {
    await run({
      place,
      reopens,
      execArgv,
      maxKeyBytes,
      maxValueBytes,
      count,
      open: async () => {
        const store = await place.open();
        opened.push(store);
        return store;
      },
    });
  } finally {
    await Promise.all(opened.map((store) => store.close()));
    await place.remove?.();
  }
}
