import { describe, expect, it } from 'vitest';
import { noServices, service } from '../services.ts';
import { type Fleet, startFleet } from './sessions-instances.ts';
import {
  appendSealed,
  appendStored,
  create,
  type Figures,
  figures,
  type Held,
  read,
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
  append: (session: Held, text: string, counts: Figures) => Promise<void>,
): Promise<{ sessions: Held[]; counts: Figures; seconds: number }> {
  const counts = figures();
  const sessions: Held[] = [];
  for (let n = 0; n < SESSIONS; n++) sessions.push(await create(fleet.url, counts));
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

describe.skipIf(noServices)('three instances behind a balancer, one killed every second', () => {
  it.each(['redis', 'postgres'] as const)(
    '[S-21] [S-34] lose no update of stored sessions on %s',
    { timeout },
    async (kind) => {
      const url = (await service(kind)) as string;
      const fleet = await startFleet(3, ['--stateless', '--mode', 'stored', '--store', url], {
        VALISE_KEYS: keys,
      });
      try {
        const done = await load(fleet, (session, text, counts) =>
          appendStored(fleet.url, session, text, counts),
        );
        report(`stored on ${kind}`, fleet, done);
        expect(done.counts.faults).toEqual([]);
        expect(fleet.kills()).toBeGreaterThan(0);
        for (const session of done.sessions) {
          const notes = await read(fleet.url, session, done.counts);
          const expected = Array.from({ length: CALLS }, (_, n) => `${session.sessionId} ${n}`);
          expect([...notes].sort()).toEqual(expected.sort());
        }
      } finally {
        await fleet.stop();
      }
    },
  );

  it('[S-21] [S-33] [S-34] serve sealed sessions without a store: the last answer wins, and nothing else goes wrong', {
    timeout,
  }, async () => {
    const fleet = await startFleet(3, ['--stateless', '--mode', 'sealed'], { VALISE_KEYS: keys });
    try {
      const sizes = new Map<string, Map<number, Set<number>>>();
      const done = await load(fleet, (session, text, counts) => {
        let size = sizes.get(session.sessionId);
        if (!size) sizes.set(session.sessionId, (size = new Map()));
        return appendSealed(fleet.url, session, text, counts, size);
      });
      report('sealed', fleet, done);
      expect(done.counts.faults).toEqual([]);
      expect(fleet.kills()).toBeGreaterThan(0);
      for (const session of done.sessions) {
        const notes = await read(fleet.url, session, done.counts);
        // Of parallel calls one is kept for each step; what is kept is all its own, and each note once.
        expect(notes).toHaveLength(session.seq);
        expect(new Set(notes).size).toBe(notes.length);
        for (const note of notes) expect(note.startsWith(`${session.sessionId} `)).toBe(true);
      }
    } finally {
      await fleet.stop();
    }
  });
});
