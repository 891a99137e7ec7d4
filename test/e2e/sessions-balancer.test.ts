import { describe, expect, it } from 'vitest';
import { noServices, service } from '../services.ts';
import { because } from '../skip.ts';
import { type Fleet, startFleet } from './sessions-instances.ts';
import {
  appendSealed,
  appendStored,
  create,
  type Figures,
  figures,
  type Held,
  read,
  type Target,
} from './sessions-load.ts';

const SOAK = process.env['VALISE_SOAK'] === '1';
const SESSIONS = SOAK ? 200 : 8;
const CALLS = SOAK ? 100 : 20;
/** Calls of one session at a time, and sessions at a time. */
const ABREAST = 4;
const AT_ONCE = SOAK ? 20 : 5;
const keys = 'T0aGXc1lJg5o3VtW3bYpW2yZr9s0u1v2w3x4y5z6A7Q';
const timeout = SOAK ? 3_600_000 : 120_000;

/** Runs `work` for each of `items`, some of them at a time. */
async function abreast<Item>(
  items: readonly Item[],
  width: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const left = [...items];
  const lane = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: width }, lane));
}

/** Every session's calls, in parallel within each, while instances die and come back. */
async function load(
  fleet: Fleet,
  to: Target,
  append: (session: Held, text: string, counts: Figures) => Promise<void>,
): Promise<{ sessions: Held[]; counts: Figures; seconds: number }> {
  const counts = figures();
  const sessions: Held[] = [];
  for (let n = 0; n < SESSIONS; n++) sessions.push(await create(to, counts));
  const stop = fleet.batter(1000);
  const start = performance.now();
  await abreast(sessions, AT_ONCE, async (session) => {
    const texts = Array.from({ length: CALLS }, (_, n) => `${session.sessionId} ${n}`);
    await abreast(texts, ABREAST, (text) => append(session, text, counts));
  });
  const seconds = (performance.now() - start) / 1000;
  await stop();
  return { sessions, counts, seconds };
}

function report(name: string, fleet: Fleet, { counts, seconds }: { counts: Figures; seconds: number }): void {
  if (!SOAK) return;
  const { calls, retries, faults } = counts;
  process.stdout.write(
    `${name}: ${SESSIONS} sessions, ${calls} calls in ${seconds.toFixed(1)} s (${(calls / seconds).toFixed(0)}/s), ` +
      `${fleet.kills()} instances killed, ${retries} calls made again, ${faults.length} faults\n`,
  );
}

/** Both majors, both eras and both stores; the newer era is v2's alone. */
const WAYS = [
  { kind: 'redis', sdk: 'v2', era: 'modern' },
  { kind: 'postgres', sdk: 'v1', era: 'legacy' },
] as const;

const needed = because('needs Redis, PostgreSQL and nginx');

describe.skipIf(noServices)('three instances behind a balancer, one killed every second', needed, () => {
  it.each(WAYS)(
    '[S-21] [S-34] stored sessions on $kind lose no update while instances are killed, with SDK $sdk servers ($era)',
    { timeout },
    async ({ kind, sdk, era }) => {
      const url = (await service(kind)) as string;
      const args = ['--sdk', sdk, '--stateless', '--mode', 'stored', '--store', url];
      const fleet = await startFleet(3, args, { VALISE_KEYS: keys });
      const to = { url: fleet.url, era };
      try {
        const done = await load(fleet, to, (session, text, counts) =>
          appendStored(to, session, text, counts),
        );
        report(`stored on ${kind}, ${sdk} (${era})`, fleet, done);
        expect(done.counts.faults).toEqual([]);
        expect(fleet.kills()).toBeGreaterThan(0);
        for (const session of done.sessions) {
          const notes = await read(to, session, done.counts);
          const expected = Array.from({ length: CALLS }, (_, n) => `${session.sessionId} ${n}`);
          expect([...notes].sort()).toEqual(expected.sort());
        }
      } finally {
        await fleet.stop();
      }
    },
  );

  it.each(WAYS)(
    '[S-21] [S-33] [S-34] sealed sessions of SDK $sdk servers ($era) work without a store while instances are killed, and the last response wins',
    {
      timeout,
    },
    async ({ sdk, era }) => {
      const args = ['--sdk', sdk, '--stateless', '--mode', 'sealed'];
      const fleet = await startFleet(3, args, { VALISE_KEYS: keys });
      const to = { url: fleet.url, era };
      try {
        const sizes = new Map<string, Map<number, Set<number>>>();
        const done = await load(fleet, to, (session, text, counts) => {
          let size = sizes.get(session.sessionId);
          if (!size) sizes.set(session.sessionId, (size = new Map()));
          return appendSealed(to, session, text, counts, size);
        });
        report(`sealed, ${sdk} (${era})`, fleet, done);
        expect(done.counts.faults).toEqual([]);
        expect(fleet.kills()).toBeGreaterThan(0);
        for (const session of done.sessions) {
          const notes = await read(to, session, done.counts);
          // Of parallel calls one is kept for each step; what is kept is all its own, and each note once.
          expect(notes).toHaveLength(session.seq);
          expect(new Set(notes).size).toBe(notes.length);
          for (const note of notes) expect(note.startsWith(`${session.sessionId} `)).toBe(true);
        }
      } finally {
        await fleet.stop();
      }
    },
  );
});
