import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { openValise } from 'mcp-valise/client';
import { memoryStore } from 'mcp-valise/store';
import { askable } from '../e2e/rounds-stage.ts';

/** Clients that know nothing of Valise, and such that do; a stock client of the newer era has no session to keep anything in. */
const KINDS = [
  { name: 'stock v1', client: 'v1', era: 'legacy', isStock: true },
  { name: 'stock v2', client: 'v2', era: 'legacy', isStock: true },
  { name: 'stock v2, 2026-07-28', client: 'v2', era: 'modern', isStock: true },
  { name: 'Valise v1', client: 'v1', era: 'legacy', isStock: false },
  { name: 'Valise v2', client: 'v2', era: 'legacy', isStock: false },
  { name: 'Valise v2, 2026-07-28', client: 'v2', era: 'modern', isStock: false },
] as const;

/** What was counted from the outside. */
export interface Counts {
  calls: number;
  /** Calls that ended with an error; what they wanted may have been done or not. */
  failed: number;
  /** Acknowledged, and not there in the end. */
  lost: number;
  /** Done twice. */
  doubled: number;
  /** An answer, or a note, that belongs to another call or client. */
  wrongClient: number;
  longestMs: number;
  /** Whether every client was served again on the connection that it had, and how long that took after the fault. */
  heals: boolean;
  healMs: number;
  /** The words of failed calls, each once. */
  readonly errors: Set<string>;
}

/** A client may wait so long for an answer. */
const CLIENT_TIMEOUT = 12_000;
/** So long may it take until all clients are served again. */
const HEAL_WITHIN = 25_000;

/** Runs a load, with a fault in the middle of it, and counts. */
export async function measure(url: URL, log: string, fault: () => Promise<unknown>): Promise<Counts> {
  const counts: Counts = {
    calls: 0,
    failed: 0,
    lost: 0,
    doubled: 0,
    wrongClient: 0,
    longestMs: 0,
    heals: true,
    healMs: 0,
    errors: new Set(),
  };
  const run = crypto.randomUUID().slice(0, 8);
  const clients = await Promise.all(KINDS.map((kind, at) => openClient(url, kind, `${run}-${at}`, counts)));
  let over = false;
  const loads = clients.map((client) => client.load(() => over));
  await pause(800);
  await fault();
  const healed = performance.now();
  await Promise.all(clients.map((client) => client.heal(healed + HEAL_WITHIN)));
  counts.healMs = performance.now() - healed;
  await pause(500);
  over = true;
  await Promise.all(loads);
  await Promise.all(clients.map((client) => client.check(linesOf(log))));
  await Promise.all(clients.map((client) => client.close().catch(() => {})));
  return counts;
}

type Kind = (typeof KINDS)[number];

async function openClient(url: URL, kind: Kind, id: string, counts: Counts) {
  const host = askable(kind.client, kind.era, () => ({ action: 'accept', content: { go: true } }));
  const valise = kind.isStock ? undefined : await openValise({ store: memoryStore() });
  if (valise) await valise.connect(host, url);
  else await host.connect(kind.client === 'v1' ? (new HttpV1(url) as unknown as HttpV2) : new HttpV2(url));
  const session = await valise?.sessions(host).create();
  const hasSession = !kind.isStock || kind.era === 'legacy';

  /** Calls a tool. Its text, or undefined if the call failed. */
  const call = async (name: string, args: Record<string, unknown> = {}): Promise<string | undefined> => {
    const options = { timeout: CLIENT_TIMEOUT };
    // SDK v1 takes a schema of the result before the options.
    const more = (kind.client === 'v1' ? [undefined, options] : [options]) as [typeof options];
    const run = () => host.callTool({ name, arguments: args }, ...more);
    const start = performance.now();
    counts.calls++;
    try {
      const { content, isError } = await (session ? session.run(run) : run());
      const [text = ''] = (content as { text: string }[]).map((part) => part.text);
      if (!isError) return text;
      throw new Error(text);
    } catch (error) {
      counts.failed++;
      counts.errors.add(
        `${kind.name}, ${name}: ${(error as Error).message.replaceAll(/\s+/g, ' ').slice(0, 200)}`,
      );
      return undefined;
    } finally {
      counts.longestMs = Math.max(counts.longestMs, performance.now() - start);
    }
  };

  const appended: string[] = [];
  const ordered: string[] = [];
  let n = 0;
  let kept = 0;
  const append = async (): Promise<boolean> => {
    const note = `${id}.${++n}`;
    const answer = await call('append', { note });
    if (answer === undefined) return false;
    if (answer !== note) counts.wrongClient++;
    appended.push(note);
    return true;
  };
  const order = async (): Promise<boolean> => {
    const tag = `${id}.${++n}`;
    const answer = await call('order', { tag });
    if (answer === undefined) return false;
    if (answer !== tag) counts.wrongClient++;
    ordered.push(tag);
    return true;
  };
  const keep = async (): Promise<boolean> => {
    const value = ++n;
    const answer = await call('keep', { tag: id, n: value });
    if (answer === undefined) return false;
    if (answer !== `${id} ${value}`) counts.wrongClient++;
    kept = value;
    return true;
  };
  const everything = hasSession ? [append, keep, order] : [order];

  /** Makes an attempt again until it is served; false if that never happens. */
  const insist = async <T>(attempt: () => Promise<T | undefined | false>, deadline: number) => {
    for (;;) {
      const done = await attempt();
      if (done !== undefined && done !== false) return done;
      if (performance.now() > deadline) return undefined;
      await pause(200);
    }
  };

  return {
    /** Two calls at a time: notes of one session at once with all else. */
    async load(isOver: () => boolean): Promise<void> {
      const lane = async (works: readonly (() => Promise<boolean>)[]) => {
        for (let at = 0; !isOver(); at++) {
          const isServed = await (works[at % works.length] as () => Promise<boolean>)();
          await pause(isServed ? 25 : 100);
        }
      };
      await Promise.all(hasSession ? [lane([append]), lane([append, keep, order])] : [lane([order])]);
    },

    async heal(deadline: number): Promise<void> {
      for (const work of everything)
        if (!(await insist(work, deadline))) {
          counts.heals = false;
          counts.errors.add(`${kind.name} was not served again`);
        }
    },

    async check(effects: readonly string[]): Promise<void> {
      const done = countEach(effects.filter((tag) => tag.startsWith(`${id}.`)));
      counts.doubled += [...done.values()].filter((times) => times > 1).length;
      counts.lost += ordered.filter((tag) => !done.has(tag)).length;
      if (!hasSession) return;
      const deadline = performance.now() + HEAL_WITHIN;
      const notes = JSON.parse((await insist(() => call('notes'), deadline)) ?? '[]') as string[];
      const found = countEach(notes);
      counts.wrongClient += notes.filter((note) => !note.startsWith(`${id}.`)).length;
      counts.doubled += [...found.values()].filter((times) => times > 1).length;
      counts.lost += appended.filter((note) => !found.has(note)).length;
      // A later value may have been kept by a call whose answer did not arrive.
      const value = Number((await insist(() => call('kept'), deadline)) ?? 0);
      if (value < kept) counts.lost++;
    },

    async close(): Promise<void> {
      await host.close();
      await valise?.close();
    },
  };
}

function linesOf(log: string): string[] {
  return readFileSync(log, 'utf8').split('\n').filter(Boolean);
}

function countEach(words: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}
