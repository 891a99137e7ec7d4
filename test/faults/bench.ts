import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { generateKey } from 'mcp-valise/seal';
import { afterAll, expect } from 'vitest';
import { type Fleet, type FleetOptions, startFleet } from './fleet.ts';
import { measure } from './load.ts';
import { addRow } from './report.ts';

/** A fleet on an engine, and how to measure a fault on it. */
export interface Bench {
  readonly fleet: Fleet;
  readonly keys: string;
  /**
   * Injects a fault under load and counts. Nothing may be done twice or reach another client. If the engine has `promised` to
   * keep what it acknowledges, nothing acknowledged may be gone, and every client must be served again.
   */
  row(fault: string, inject: () => Promise<unknown>, promised?: boolean): Promise<void>;
}

/** Ends, after the tests of the engine and in reverse order, what was started for them. */
export function endsAfterwards(): (end: () => unknown) => void {
  const ends: (() => unknown)[] = [];
  afterAll(async () => {
    for (const end of ends.reverse()) await end();
  });
  return (end) => void ends.push(end);
}

export async function openBench(
  engine: string,
  options: Pick<FleetOptions, 'store' | 'durability' | 'within'>,
  later: (end: () => unknown) => void,
): Promise<Bench> {
  const folder = mkdtempSync(join(tmpdir(), 'valise-faults-'));
  later(() => rmSync(folder, { recursive: true, force: true }));
  const log = join(folder, 'effects.log');
  writeFileSync(log, '');
  const keys = generateKey();
  const fleet = await startFleet({ ...options, keys, log });
  later(fleet.stop);
  return {
    fleet,
    keys,
    async row(fault, inject, promised = true) {
      const { errors, ...counts } = await measure(fleet.url, log, inject);
      addRow({ engine, fault, promised, ...counts });
      const said = [JSON.stringify({ engine, fault, ...counts }), ...errors].join('\n    ');
      process.stdout.write(`${said}\n`);
      expect(counts, said).toMatchObject({
        doubled: 0,
        wrongClient: 0,
        ...(promised && { lost: 0, heals: true }),
      });
    },
  };
}

/** Kills each instance in turn, and starts it again. */
export async function killInTurn({ instances }: Fleet): Promise<void> {
  for (const instance of instances) {
    await pause(500);
    await instance.kill();
    await pause(200);
    await instance.start();
  }
}

/** Holds a fault for so many seconds. */
export async function during(seconds: number, begin: () => unknown, end: () => unknown): Promise<void> {
  await begin();
  await pause(seconds * 1000);
  await end();
}

/** Repeats something every so many milliseconds, for 4 seconds by default. */
export async function every(ms: number, strike: () => unknown, total = 4000): Promise<void> {
  for (let left = total; left > 0; left -= ms) {
    await strike();
    await pause(ms);
  }
}
